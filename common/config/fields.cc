#include "common/config/fields.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "common/config/node.h"
#include "proto/job.pb.h"

namespace tern::config {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

namespace {

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
  return FindKey([&](const FieldDescriptor& field) { return field.name() == name; });
}

std::string FindValueKey(const std::string& name) {
  std::string key = FindKey([&](const FieldDescriptor& field) {
    return field.name() == name && field.message_type() == nullptr;
  });
  const FieldDescriptor* section = pb::Job::descriptor()->FindFieldByName(name);
  if (key.empty() && section != nullptr && section->message_type() != nullptr &&
      section->message_type()->FindFieldByName("count") != nullptr)
    key = name + ".count";
  for (size_t i = 0; (i = key.find("[0]", i)) != std::string::npos;) key.replace(i, 3, ".0");
  return key;
}

std::string NumberText(double number) { return ShortestText(number); }
std::string NumberText(float number) { return ShortestText(number); }

}  // namespace tern::config
