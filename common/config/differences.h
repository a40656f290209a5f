// Lists the keys that differ between two jobs.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::config {

// Returns the job as protobuf text, without the keys that may differ between hosts. Checkpoints
// store this text.
std::string JobText(const pb::Job& job);
// Parses a text that JobText has returned, perhaps of another version of Tern: keys that this one
// does not know are left out. kBadData: `text` is not a job.
Result<pb::Job> ReadJobText(const std::string& text);

// Returns a sentence for each key that differs, in the order of job.proto:
// "train.schedule.learning_rate was 0.01, is now 0.02".
std::vector<std::string> Differences(const google::protobuf::Message& old_message,
                                     const google::protobuf::Message& new_message);

// Those of a job and the job whose checkpoints it wants to resume from that prevent it: no key that
// may change at a resume, and none of the new job's checkpoints.accept.
std::vector<std::string> DifferencesAtResume(const pb::Job& old_job, const pb::Job& new_job);

}  // namespace tern::config
