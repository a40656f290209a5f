// The rules between keys of a job, which options of single keys cannot express.
//
// Besides the tables of names, the checks use tables of codecs: "rounding_codecs" draw no codes;
// "float_codecs" are those of them that keep nothing of a gradient for later; "exact_codecs" keep
// nothing even with error_feedback; "unbiased_codecs" need no memory; the workers of
// "sharing_codecs" share scalers unless the job says otherwise.
#pragma once

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

// Checks a job with its defaults filled in, after CheckRules. Skips a rule if one of its keys
// already has a fault.
void CheckJob(const pb::Job& job, const Reading& reading);

// Its parts, each in a file of its own: data with its augmentation; train with its optimizer and
// schedule; the algorithm and what it demands of exchange, workers and faults.
void CheckData(const pb::Job& job, const Reading& reading);
void CheckTrain(const pb::Job& job, const Reading& reading);
void CheckAlgorithm(const pb::Job& job, const Reading& reading);

}  // namespace tern::config
