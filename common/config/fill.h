// Fills a protobuf message from a Node (the syntax tree of a job) by reflection, so a new key of a
// job needs no code here.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/fields.h"
#include "common/config/node.h"
#include "proto/job.pb.h"

namespace tern::config {

// What the functions that parse and validate a job share: the tables of allowed names, and the
// objects that collect the faults and the positions of keys.
struct ParseContext {
  const NameTables& tables;  // the allowed names of models, codecs, ...
  Faults* faults;
  KeyPositions* key_positions;
  // The job's train.compute. With client and module, some keys have no meaning.
  pb::Train::Compute compute = pb::Train::net;
};

// Fills `message`, whose key is `key`, from `node`. Reports invalid values.
void FillMessage(const Node& node, const std::string& key, google::protobuf::Message* message,
                 const ParseContext& context);
// Sets `field` of `message` from `node`. `key`: the field's dotted name. If the field is repeated,
// the function adds items.
void FillField(const Node& node, const std::string& key,
               const google::protobuf::FieldDescriptor* field, google::protobuf::Message* message,
               const ParseContext& context);

// Reports that the section `parent`, a message of type `type`, has no key `name`.
void ReportUnknownKey(const Position& position, const std::string& parent, const std::string& name,
                      const google::protobuf::Descriptor* type, Faults* faults);

}  // namespace tern::config
