// Fills in a job's defaults.
#pragma once

#include <google/protobuf/message.h>

#include "proto/job.pb.h"

namespace tern::config {

// Sets each key that has a default and was left out, and each section of job.proto (but not of
// net.proto: there the presence of a layer's kind or an initializer has a meaning).
void FillDefaults(google::protobuf::Message* message);

// What JobDigest is of: every default written, nothing that is (local).
pb::Job SharedJob(const pb::Job& job);
// What StateDigest is of.
pb::Job StateJob(const pb::Job& job);

}  // namespace tern::config
