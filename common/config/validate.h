// The rules between keys of a job: what no option of a single key can say.
//
// Beside the tables that keys take their names from, they want to know of the codecs, in tables
// too: "rounding_codecs" are those whose codes are not drawn, "float_codecs" those of them that
// keep nothing of a gradient for later, "exact_codecs" those that keep nothing even with
// error_feedback, "unbiased_codecs" those that live without keeping anything, "sharing_codecs"
// those whose workers share scalers unless the job says otherwise.
#pragma once

#include "common/config/fill.h"

namespace tern::config {

// Checks a job with its defaults filled in, after CheckRules. A rule one of whose keys is at fault
// already is passed over.
void CheckJob(const pb::Job& job, const Reading& reading);

// Its parts in files of their own: data with its augmentation; train with its optimizer and
// schedule; the algorithm and what it makes of exchange, workers and faults.
void CheckData(const pb::Job& job, const Reading& reading);
void CheckTrain(const pb::Job& job, const Reading& reading);
void CheckAlgorithm(const pb::Job& job, const Reading& reading);

}  // namespace tern::config
