// Fills in a job's defaults.
#pragma once

#include <google/protobuf/message.h>

namespace tern::config {

// Sets each key that has a default and was left out, and each section of job.proto (but not of
// net.proto: there the presence of a layer's kind or an initializer has a meaning).
void FillDefaults(google::protobuf::Message* message);

}  // namespace tern::config
