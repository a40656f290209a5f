// The rules between keys of a job, which the options of single keys cannot express.
//
// Besides the tables of names, the checks use tables of codecs. "rounding_codecs" are
// deterministic. "float_codecs" send the values themselves, at most rounded; "exact_codecs" do so
// even with error_feedback. "unbiased_codecs" have no memory. With "sharing_codecs" workers share
// scalers unless the job says otherwise.
#pragma once

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

// Checks a job with all defaults, after CheckRules. Skips a rule if one of its keys already has a
// fault.
void CheckJob(const pb::Job& job, const ParseContext& context);

// The parts of CheckJob, each in its own file: data with its augmentation; train with its optimizer
// and schedule; the algorithm and what it requires of exchange, workers and faults.
void CheckData(const pb::Job& job, const ParseContext& context);
void CheckTrain(const pb::Job& job, const ParseContext& context);
void CheckAlgorithm(const pb::Job& job, const ParseContext& context);

}  // namespace tern::config
