// The rules about single keys, which stand as options in job.proto: required, ranges, numbers of
// items, table names.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/fill.h"

namespace tern::config {

// Checks `message`, which stands at `key`, and all below it. Keys at fault already are passed over.
void CheckRules(const google::protobuf::Message& message, const std::string& key,
                const Reading& reading);

}  // namespace tern::config
