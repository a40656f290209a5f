// The rules for single keys, which are options in job.proto: required keys, ranges, numbers of
// items, names from tables.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/fill.h"

namespace tern::config {

// Whether the key has no meaning in a job with this train.compute.
bool IsMeaningless(const google::protobuf::FieldDescriptor* field, pb::Train::Compute compute);

// Checks `message`, whose key is `key`, and everything in it. Skips keys that already have a fault.
void CheckRules(const google::protobuf::Message& message, const std::string& key,
                const ParseContext& context);

}  // namespace tern::config
