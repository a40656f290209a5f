// Node -> message, by reflection: keys, types and kinds. Knows no key by name.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/fields.h"
#include "common/config/node.h"

namespace tern::config {

// The context of filling: the tables, and where faults and positions are recorded.
struct Reading {
  const NameTables& tables;  // for the allowed values in messages
  Faults* faults;
  Origins* origins;
};

// Fills `message`, whose key is `key`, from `node`. Reports faulty values and leaves them out.
void FillMessage(const Node& node, const std::string& key, google::protobuf::Message* message,
                 const Reading& reading);
// Sets one field of `message`, whose key is `key`, from `node`; a repeated field as a whole.
void FillField(const Node& node, const std::string& key,
               const google::protobuf::FieldDescriptor* field, google::protobuf::Message* message,
               const Reading& reading);

// Reports a key that `type` does not have. `parent` is the key of the message of that type.
void ReportUnknownKey(const Position& at, const std::string& parent, const std::string& name,
                      const google::protobuf::Descriptor* type, Faults* faults);

}  // namespace tern::config
