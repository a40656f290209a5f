// Node -> message, by reflection: keys, types and kinds. Knows no key by name.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/fields.h"
#include "common/config/node.h"

namespace tern::config {

// What filling reports to and records in.
struct Reading {
  const NameTables& tables;  // for what messages call allowed
  Faults* faults;
  Origins* origins;
};

// Fills `message`, which stands at `key`, from `node`. What is at fault is left out and reported.
void FillMessage(const Node& node, const std::string& key, google::protobuf::Message* message,
                 const Reading& reading);
// Sets one field of `message` (all of it, if repeated), which stands at `key`, from `node`.
void FillField(const Node& node, const std::string& key,
               const google::protobuf::FieldDescriptor* field, google::protobuf::Message* message,
               const Reading& reading);

// Reports a key that `type` does not have. `parent` is where `type` stands.
void ReportUnknownKey(const Position& at, const std::string& parent, const std::string& name,
                      const google::protobuf::Descriptor* type, Faults* faults);

}  // namespace tern::config
