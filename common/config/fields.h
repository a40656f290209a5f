// What job.proto says about a key, by reflection: its rule, its type in words; and where its value
// was written.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <vector>

#include "common/config/faults.h"
#include "common/config/name_tables.h"
#include "proto/rule.pb.h"

namespace tern::config {

// The position of each key that was written, by its dotted name.
using Origins = std::map<std::string, Position>;

// The position of `key`, or of the nearest key above it that was written. For a missing key, that
// of the map that lacks it.
Position PositionOf(const Origins& origins, const std::string& key);

const pb::Rule& RuleOf(const google::protobuf::FieldDescriptor* field);
// Whether the key `field` of `message` has a meaning beside the others there ((rule).only_for).
bool HasMeaning(const google::protobuf::FieldDescriptor* field,
                const google::protobuf::Message& message);

std::vector<std::string> KeysOf(const google::protobuf::Descriptor* message);
std::vector<std::string> NamesOf(const google::protobuf::EnumDescriptor* type);

// "one of a, b, c".
std::string OneOf(const std::vector<std::string>& names);

// One value of `field` in words: "a whole number, 1 to 127", "one of loopback, none", "a text".
std::string AllowedValue(const google::protobuf::FieldDescriptor* field, const NameTables& tables);
// The same for the whole field: repeated ones are lists.
std::string AllowedField(const google::protobuf::FieldDescriptor* field, const NameTables& tables);

// The dotted name of a key called `name` anywhere in a job; empty if there is none.
std::string KeyElsewhere(const std::string& name);

// The shortest text that parses to the same number: "0.1", "64", "1e-05".
std::string NumberText(double number);
std::string NumberText(float number);

}  // namespace tern::config
