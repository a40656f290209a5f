// The rules between keys of a job, which the options of single keys cannot express.
//
// The caller passes tables of names (ParseContext::tables). Some of them list the codecs with a
// property:
//
//   rounding_codecs  deterministic: the codes do not depend on random numbers
//   float_codecs     send the values themselves, at most rounded to 16 bits
//   exact_codecs     have the property of float_codecs even if error_feedback is true
//   unbiased_codecs  do not carry the error of a code over to the next round
//   sharing_codecs   workers share a tensor's scalers, if exchange.scaler is not per_worker
//   adding_codecs    their codes can be added up in steps, on hosts and then on servers
//   only_sharing_codecs  workers share a tensor's scalers in any case
#pragma once

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

// Checks a job with all defaults, after CheckRules. Skips a rule if one of its keys already has a
// fault.
void CheckJob(const pb::Job& job, const ParseContext& context);

// The parts of CheckJob, each in its own file: data with its augmentation; train with its optimizer
// and schedule; the sections of codecs; the algorithm and what it requires of exchange, workers and
// faults; what a job whose workers are programs of the user's must not have.
void CheckData(const pb::Job& job, const ParseContext& context);
void CheckTrain(const pb::Job& job, const ParseContext& context);
void CheckCodecs(const pb::Job& job, const ParseContext& context);
void CheckAlgorithm(const pb::Job& job, const ParseContext& context);
void CheckClient(const pb::Job& job, const ParseContext& context);
void CheckModule(const pb::Job& job, const ParseContext& context);

}  // namespace tern::config
