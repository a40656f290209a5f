// What job.proto says about a key of a job: its rule (which values are allowed), and its type in
// words. Both are read by protobuf reflection. Also the positions of keys in the job file.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/config/faults.h"
#include "common/config/name_tables.h"
#include "proto/rule.pb.h"

namespace tern::config {

// The position of each key in the job, by its dotted name.
using KeyPositions = std::map<std::string, Position>;

// The position of `key`. If the job does not have the key: the position of the innermost section
// around the key that the job has, or the beginning of the job file.
Position PositionOf(const KeyPositions& key_positions, const std::string& key);

const pb::Rule& RuleOf(const google::protobuf::FieldDescriptor* field);
// Whether the key `field` has an effect in `message`. The option (rule).only_for may limit that to
// messages whose key `name` has one of the listed values.
bool IsApplicable(const google::protobuf::FieldDescriptor* field,
                  const google::protobuf::Message& message);

// Whether the key `field` changes anything in `message`, a section with all its defaults. The
// option (rule).effective_if may make that depend on another key. A job may set the key anyway.
bool HasEffect(const google::protobuf::FieldDescriptor* field,
               const google::protobuf::Message& message);
// Whether `field` has in `message` the value that it has when nothing sets it.
bool HasDefault(const google::protobuf::FieldDescriptor* field,
                const google::protobuf::Message& message);

// The names of the fields of a message.
std::vector<std::string> KeysOf(const google::protobuf::Descriptor* message);
// The names of the values of an enum.
std::vector<std::string> NamesOf(const google::protobuf::EnumDescriptor* type);

// The value of `field`, which is not repeated and no section: "0.1", "true", "momentum".
std::string ScalarOf(const google::protobuf::Message& message,
                     const google::protobuf::FieldDescriptor* field);

// Returns "one of a, b, c", or the name itself if there is only one.
std::string OneOf(const std::vector<std::string>& names);

// The allowed values of `field` in words: "a whole number, 1 to 127", "one of loopback, none", "a
// text".
std::string AllowedValue(const google::protobuf::FieldDescriptor* field, const NameTables& tables);
// Like AllowedValue; for a repeated field, describes a list of such values.
std::string AllowedField(const google::protobuf::FieldDescriptor* field, const NameTables& tables);

// The dotted name of the first key, in any section of a job, that `matches` accepts; empty if there
// is none.
std::string FindKey(
    const std::function<bool(const google::protobuf::FieldDescriptor& field)>& matches);
// The dotted name of the first key, in any section of a job, that is called `name`, with [] for any
// item of a list: "servers[].address"; empty if there is none.
std::string FindKeyByName(const std::string& name);
// The first key that is called `name` and has a value, as --set takes it: "servers.0.address" for
// "address". For a section with a key `count`, that key: "workers.count" for "workers". Empty if
// there is none.
std::string FindValueKey(const std::string& name);

// Whether `key` is the full name of a key with a value, as --set takes it: "train.steps",
// "servers.0.address".
bool IsValueKey(const std::string& key);

// The shortest text that parses to the same number: "0.1", "64", "1e-05".
std::string NumberText(double number);
std::string NumberText(float number);

}  // namespace tern::config
