// Fills a protobuf message from a Node by reflection. Knows no key by name.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/fields.h"
#include "common/config/node.h"

namespace tern::config {

// What parsing and validating a job share: the tables of names, and where faults and positions are
// recorded.
struct ParseContext {
  const NameTables& tables;  // for the allowed values in messages
  Faults* faults;
  Origins* origins;
};

// Fills `message`, whose key is `key`, from `node`. Reports invalid values and skips them.
void FillMessage(const Node& node, const std::string& key, google::protobuf::Message* message,
                 const ParseContext& context);
// Sets the field with the dotted name `key` from `node`; replaces all items of a repeated field.
void FillField(const Node& node, const std::string& key,
               const google::protobuf::FieldDescriptor* field, google::protobuf::Message* message,
               const ParseContext& context);

// Reports that the section `parent`, a message of type `type`, has no key `name`.
void ReportUnknownKey(const Position& at, const std::string& parent, const std::string& name,
                      const google::protobuf::Descriptor* type, Faults* faults);

}  // namespace tern::config
