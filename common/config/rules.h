// The rules about single keys, written as options in job.proto: required, ranges, numbers of items,
// table names.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/fill.h"

namespace tern::config {

// Checks `message`, whose key is `key`, and everything in it. Skips keys that already have a fault.
void CheckRules(const google::protobuf::Message& message, const std::string& key,
                const Reading& reading);

}  // namespace tern::config
