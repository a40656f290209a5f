// Finds the keys that a job sets though nothing reads them: the power of a schedule that is not
// poly, the clip of a job whose codecs do not clip, the schedule of a job that is over before its
// warm-up. The job is valid, but its author may have meant another.
#pragma once

#include <string>
#include <vector>

#include "common/config/fill.h"
#include "proto/job.pb.h"

namespace tern::config {

// A warning for each such key, which says where it is and why it has no effect:
//
//   job.yaml:12:5: train.schedule.power has no effect, because train.schedule.name is fixed
//
// Of more than eight, the rest is one sentence with their number.
// `written_job`: has only the keys that the job sets; `complete_job`: the same with all defaults,
// without faults. A key that only codecs with scalers read is left out if it has its default.
std::vector<std::string> WarningsOfIgnoredKeys(const pb::Job& written_job,
                                               const pb::Job& complete_job,
                                               const ParseContext& context);

}  // namespace tern::config
