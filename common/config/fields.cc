#include "common/config/fields.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "common/base/text.h"
#include "common/config/node.h"
#include "proto/job.pb.h"

namespace tern::config {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

namespace {

// `key`, as FindKey returns it, with `index` in place of each "[0]".
std::string WithIndices(std::string key, const std::string& index) {
  for (size_t i = 0; (i = key.find("[0]", i)) != std::string::npos;) key.replace(i, 3, index);
  return key;
}

template <typename T>
std::string ShortestText(T number) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof(text), number).ptr);
}

std::string AllowedNumber(const FieldDescriptor* field) {
  const pb::Rule& rule = RuleOf(field);
  const bool is_integer = field->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE &&
                          field->cpp_type() != FieldDescriptor::CPPTYPE_FLOAT;
  const std::string type = is_integer ? "a whole number" : "a number";
  if (rule.has_min() && rule.has_max() && !rule.above_min()) {
    return type + ", " + NumberText(rule.min()) + " to " + NumberText(rule.max());
  }
  std::string text = type;
  if (rule.has_min())
    text += (rule.above_min() ? ", more than " : ", at least ") + NumberText(rule.min());
  if (rule.has_max()) text += ", at most " + NumberText(rule.max());
  if (is_integer && !rule.has_min()) text += ", 0 or more";
  return text;
}

}  // namespace

Position PositionOf(const KeyPositions& key_positions, const std::string& key) {
  std::string ancestor = key;
  while (true) {
    if (const auto it = key_positions.find(ancestor); it != key_positions.end()) return it->second;
    const size_t separator_at = ancestor.find_last_of(".[");
    if (separator_at == std::string::npos) return {1, 1, -1};
    ancestor.resize(separator_at);
  }
}

const pb::Rule& RuleOf(const FieldDescriptor* field) {
  return field->options().GetExtension(pb::rule);
}

bool IsApplicable(const FieldDescriptor* field, const google::protobuf::Message& message) {
  const auto& names = RuleOf(field).only_for();
  if (names.empty()) return true;
  const FieldDescriptor* name_field = message.GetDescriptor()->FindFieldByName("name");
  const std::string name = message.GetReflection()->GetString(message, name_field);
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool HasEffect(const FieldDescriptor* field, const google::protobuf::Message& message) {
  if (!RuleOf(field).has_effective_if()) return true;
  const pb::Condition& condition = RuleOf(field).effective_if();
  const std::string value =
      ScalarOf(message, message.GetDescriptor()->FindFieldByName(condition.key()));
  const auto contains_value = [&](const auto& values) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  return (condition.is().empty() || contains_value(condition.is())) &&
         !contains_value(condition.is_not());
}

bool HasDefault(const FieldDescriptor* field, const google::protobuf::Message& message) {
  if (field->is_repeated()) return message.GetReflection()->FieldSize(message, field) == 0;
  if (field->message_type() != nullptr) return !message.GetReflection()->HasField(message, field);
  const std::unique_ptr<google::protobuf::Message> empty_message(message.New());
  return ScalarOf(message, field) == ScalarOf(*empty_message, field);
}

std::vector<std::string> KeysOf(const Descriptor* message) {
  std::vector<std::string> keys;
  for (int i = 0; i < message->field_count(); ++i) keys.push_back(message->field(i)->name());
  return keys;
}

std::vector<std::string> NamesOf(const EnumDescriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->value_count(); ++i) names.push_back(type->value(i)->name());
  return names;
}

std::string ScalarOf(const google::protobuf::Message& message, const FieldDescriptor* field) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING)
    return message.GetReflection()->GetString(message, field);
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &text);
  return text;
}

std::string OneOf(const std::vector<std::string>& names) {
  return (names.size() == 1 ? "" : "one of ") + tern::Join(names);
}

std::string AllowedValue(const FieldDescriptor* field, const NameTables& tables) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return field->message_type()->field_count() == 0
                 ? "an empty map {}"
                 : "a map of the keys " + tern::Join(KeysOf(field->message_type()));
    case FieldDescriptor::CPPTYPE_ENUM:
      return OneOf(NamesOf(field->enum_type()));
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING: {
      const auto table_entry = tables.find(RuleOf(field).table());
      return table_entry == tables.end() ? "a text" : OneOf(table_entry->second);
    }
    default:
      return AllowedNumber(field);
  }
}

std::string AllowedField(const FieldDescriptor* field, const NameTables& tables) {
  const std::string value = AllowedValue(field, tables);
  const std::string list = "a list, each item " + value;
  if (!field->is_repeated()) return value;
  return RuleOf(field).has_auto_item() ? "auto, or " + list : list;
}

std::string FindKey(const std::function<bool(const FieldDescriptor&)>& matches) {
  std::set<const Descriptor*> visited_types;
  std::deque<std::pair<const Descriptor*, std::string>> queue = {{pb::Job::descriptor(), ""}};
  while (!queue.empty()) {
    const auto [message, prefix] = queue.front();
    queue.pop_front();
    if (!visited_types.insert(message).second) continue;
    for (int i = 0; i < message->field_count(); ++i) {
      const FieldDescriptor* field = message->field(i);
      const std::string key = Join(prefix, field->name()) + (field->is_repeated() ? "[0]" : "");
      if (matches(*field)) return key;
      if (field->message_type() != nullptr) queue.emplace_back(field->message_type(), key);
    }
  }
  return "";
}

std::string FindKeyByName(const std::string& name) {
  return WithIndices(FindKey([&](const FieldDescriptor& field) { return field.name() == name; }),
                     "[]");
}

std::string FindValueKey(const std::string& name) {
  std::string key = FindKey([&](const FieldDescriptor& field) {
    return field.name() == name && field.message_type() == nullptr;
  });
  const FieldDescriptor* section = pb::Job::descriptor()->FindFieldByName(name);
  if (key.empty() && section != nullptr && section->message_type() != nullptr &&
      section->message_type()->FindFieldByName("count") != nullptr)
    key = name + ".count";
  return WithIndices(std::move(key), ".0");
}

bool IsValueKey(const std::string& key) {
  const Descriptor* section = pb::Job::descriptor();
  const FieldDescriptor* field = nullptr;
  std::istringstream names(key);
  for (std::string name; std::getline(names, name, '.');) {
    const bool is_index =
        !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    if (is_index && field != nullptr && field->is_repeated()) continue;
    field = section == nullptr ? nullptr : section->FindFieldByName(name);
    if (field == nullptr) return false;
    section = field->message_type();
  }
  return field != nullptr && section == nullptr;
}

std::string NumberText(double number) { return ShortestText(number); }
std::string NumberText(float number) { return ShortestText(number); }

}  // namespace tern::config
