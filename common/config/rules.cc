#include "common/config/rules.h"

#include <algorithm>
#include <optional>

#include "common/config/nearest.h"
#include "common/config/utf8.h"

namespace tern::config {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace {

// The value of a single field, or item `index` of a repeated field.
struct FieldValue {
  const Message& message;
  const FieldDescriptor* field;
  int index;

  template <typename T>
  T Get(T (Reflection::*get)(const Message&, const FieldDescriptor*) const,
        T (Reflection::*get_item)(const Message&, const FieldDescriptor*, int) const) const {
    const Reflection* reflection = message.GetReflection();
    return field->is_repeated() ? (reflection->*get_item)(message, field, index)
                                : (reflection->*get)(message, field);
  }

  std::string Text() const { return Get(&Reflection::GetString, &Reflection::GetRepeatedString); }
};

struct Number {
  double value;
  std::string text;
};

std::optional<Number> NumberOf(const FieldValue& value) {
  const auto from_integer = [](auto number) {
    return Number{static_cast<double>(number), std::to_string(number)};
  };
  switch (value.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return from_integer(value.Get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
    case FieldDescriptor::CPPTYPE_INT64:
      return from_integer(value.Get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return from_integer(value.Get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
    case FieldDescriptor::CPPTYPE_UINT64:
      return from_integer(value.Get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64));
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const float number = value.Get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
      return Number{number, NumberText(number)};
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double number = value.Get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
      return Number{number, NumberText(number)};
    }
    default:
      return std::nullopt;
  }
}

class RuleChecker {
 public:
  explicit RuleChecker(const ParseContext& context) : context_(context) {}

  void CheckMessage(const Message& message, const std::string& key) {
    const auto* type = message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      const std::string field_key = Join(key, field->name());
      if (context_.faults->HasFault(field_key)) continue;
      if (field->is_repeated()) {
        CheckItems(message, field, field_key);
      } else if (message.GetReflection()->HasField(message, field)) {
        CheckValue({message, field, 0}, field_key);
      } else if (RuleOf(field).required() && !IsMeaningless(field, context_.compute) &&
                 !IsSpared(field)) {
        Report(field_key, "nothing",
               AllowedField(field, context_.tables) + " (this key is required)");
      }
    }
  }

 private:
  bool IsSpared(const FieldDescriptor* field) const {
    return context_.compute == pb::Train::module && RuleOf(field).not_required_for_module();
  }

  void CheckItems(const Message& message, const FieldDescriptor* field, const std::string& key) {
    const pb::Rule& rule = RuleOf(field);
    const auto num_items =
        static_cast<uint32_t>(message.GetReflection()->FieldSize(message, field));
    if (num_items < rule.min_items()) {
      Report(key, num_items == 0 ? "nothing" : std::to_string(num_items) + " items",
             AllowedField(field, context_.tables) + " (at least " +
                 std::to_string(rule.min_items()) + ")");
    }
    if (rule.has_max_items() && num_items > rule.max_items()) {
      Report(key, std::to_string(num_items) + " items",
             "at most " + std::to_string(rule.max_items()));
    }
    for (uint32_t i = 0; i < num_items; ++i)
      CheckValue({message, field, static_cast<int>(i)}, Join(key, size_t{i}));
  }

  void CheckValue(const FieldValue& value, const std::string& key) {
    if (context_.faults->HasFault(key)) return;
    if (value.field->message_type() != nullptr) {
      const Reflection* reflection = value.message.GetReflection();
      CheckMessage(value.field->is_repeated()
                       ? reflection->GetRepeatedMessage(value.message, value.field, value.index)
                       : reflection->GetMessage(value.message, value.field),
                   key);
    } else if (value.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      CheckText(value, key);
    } else if (const std::optional<Number> number = NumberOf(value)) {
      const pb::Rule& rule = RuleOf(value.field);
      const bool is_too_low = rule.has_min() && (rule.above_min() ? number->value <= rule.min()
                                                                  : number->value < rule.min());
      const bool is_too_high = rule.has_max() && number->value > rule.max();
      if (is_too_low || is_too_high)
        Report(key, number->text, AllowedValue(value.field, context_.tables));
    }
  }

  void CheckText(const FieldValue& value, const std::string& key) {
    const std::string text = value.Text();
    if (text.empty())
      return Report(key, "an empty text", AllowedValue(value.field, context_.tables));
    if (!IsPrintable(text)) return Report(key, Excerpt(text), "a text of printable UTF-8");
    const std::string& table = RuleOf(value.field).table();
    if (table.empty()) return;
    const auto table_entry = context_.tables.find(table);
    if (table_entry == context_.tables.end()) {
      return Report(key, Excerpt(text), "no name: this program has no table of " + table);
    }
    if (std::find(table_entry->second.begin(), table_entry->second.end(), text) !=
        table_entry->second.end())
      return;
    context_.faults->Add(PositionOf(*context_.key_positions, key), key, Excerpt(text),
                         OneOf(table_entry->second), NearestName(text, table_entry->second));
  }

  void Report(const std::string& key, const std::string& saw, const std::string& allowed) {
    context_.faults->Add(PositionOf(*context_.key_positions, key), key, saw, allowed);
  }

  const ParseContext& context_;
};

}  // namespace

bool IsMeaningless(const FieldDescriptor* field, pb::Train::Compute compute) {
  return (compute == pb::Train::client && RuleOf(field).not_for_client()) ||
         (compute == pb::Train::module && RuleOf(field).not_for_module());
}

void CheckRules(const Message& message, const std::string& key, const ParseContext& context) {
  RuleChecker(context).CheckMessage(message, key);
}

}  // namespace tern::config
