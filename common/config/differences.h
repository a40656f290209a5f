// Which keys of two jobs differ, in words.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::config {

// The whole job without what is (local), as protobuf text: what a checkpoint keeps of its job.
std::string JobText(const pb::Job& job);
// The way back. kBadData: it is not the text of a job, or has keys that this version does not know.
Result<pb::Job> ReadJobText(const std::string& text);

// A phrase for each key in which they differ, in the order of job.proto:
// "train.schedule.learning_rate was 0.01, is now 0.02".
std::vector<std::string> Differences(const google::protobuf::Message& was,
                                     const google::protobuf::Message& is);

}  // namespace tern::config
