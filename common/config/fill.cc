#include "common/config/fill.h"

#include <set>

#include "common/config/nearest.h"
#include "common/config/renamed.h"
#include "common/config/scalar.h"

namespace tern::config {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

namespace {

std::string Describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kMap:
      return "a map";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kScalar:
      break;
  }
  if (node.is_quoted) return "the text \"" + Excerpt(node.text) + "\"";
  return node.is_text_format ? Excerpt(node.text) + " without quotes" : Excerpt(node.text);
}

void ReportInvalidValue(const Node& node, const std::string& key, const FieldDescriptor* field,
                        const ParseContext& context, const std::string& allowed) {
  std::string suggestion;
  if (field->enum_type() != nullptr)
    suggestion = NearestName(node.text, NamesOf(field->enum_type()));
  const bool wants_text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  const bool needs_no_quotes = node.kind == Node::Kind::kScalar && !node.is_quoted && !wants_text;
  context.faults->Add(node.position, key, needs_no_quotes ? Excerpt(node.text) : Describe(node),
                      allowed, suggestion);
}

// Sets a single field, or adds one item to a repeated field. Returns false if the node is not a
// value of the field's type.
bool TrySetValue(const Node& node, const std::string& key, const FieldDescriptor* field,
                 Message* message, const ParseContext& context) {
  if (field->message_type() == nullptr) {
    return node.kind == Node::Kind::kScalar && SetScalar(node, field, message);
  }
  if (node.kind != Node::Kind::kMap && node.kind != Node::Kind::kNull) return false;
  Message* nested_message = field->is_repeated()
                                ? message->GetReflection()->AddMessage(message, field)
                                : message->GetReflection()->MutableMessage(message, field);
  FillMessage(node, key, nested_message, context);
  return true;
}

// Adds an item in place of a faulty one, so that the following items keep their numbers.
void AddPlaceholder(const FieldDescriptor* field, Message* message) {
  if (field->message_type() != nullptr) {
    message->GetReflection()->AddMessage(message, field);
    return;
  }
  Node default_node;
  default_node.kind = Node::Kind::kScalar;
  default_node.text = field->enum_type() != nullptr ? field->enum_type()->value(0)->name()
                      : field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? "false"
                                                                           : "0";
  SetScalar(default_node, field, message);
}

// Does the same as TrySetValue, records the position of the value, and reports a node that is not a
// valid value (a repeated field then gets a placeholder).
void FillValue(const Node& node, const std::string& key, const FieldDescriptor* field,
               Message* message, const ParseContext& context) {
  (*context.key_positions)[key] = node.position;
  if (node.has_fault) {
    context.faults->Mute(key);
  } else if (TrySetValue(node, key, field, message, context)) {
    return;
  } else {
    ReportInvalidValue(node, key, field, context, AllowedValue(field, context.tables));
  }
  if (field->is_repeated()) AddPlaceholder(field, message);
}

// The number of items that a repeated field has, which is the index of the next item.
size_t ItemCount(const FieldDescriptor* field, const Message& message) {
  return static_cast<size_t>(message.GetReflection()->FieldSize(message, field));
}

// Whether another member of the field's oneof is already set. Reports that as a fault.
bool ConflictsInOneof(const Node& node, const std::string& key, const FieldDescriptor* field,
                      const Message& message, const ParseContext& context) {
  const OneofDescriptor* oneof = field->containing_oneof();
  if (oneof == nullptr) return false;
  const FieldDescriptor* other_field =
      message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  if (other_field == nullptr || other_field == field) return false;
  std::vector<std::string> names;
  for (int i = 0; i < oneof->field_count(); ++i) names.push_back(oneof->field(i)->name());
  context.faults->Add(node.position, key, field->name() + " beside " + other_field->name(),
                      "only " + OneOf(names));
  return true;
}

// `auto` in place of a list of messages: one item, of which the rule says the first key.
bool IsAuto(const Node& node, const FieldDescriptor* field) {
  return RuleOf(field).has_auto_item() && node.kind == Node::Kind::kScalar && node.text == "auto";
}

void AddAutoItem(const FieldDescriptor* field, Message* message) {
  Message* item = message->GetReflection()->AddMessage(message, field);
  item->GetReflection()->SetString(item, field->message_type()->field(0),
                                   RuleOf(field).auto_item());
}

}  // namespace

void ReportUnknownKey(const Position& position, const std::string& parent, const std::string& name,
                      const Descriptor* type, Faults* faults) {
  const std::string key = Join(parent, name);
  if (const std::string new_name = FindRenamedKey(parent, name, *type); !new_name.empty()) {
    faults->Add(position, key, "a key that is called " + new_name + " now", new_name);
    return faults->Mute(new_name);
  }
  const std::string nearest_name = NearestName(name, KeysOf(type));
  std::string suggestion = nearest_name.empty() ? FindKeyByName(name) : Join(parent, nearest_name);
  const std::string allowed =
      type->field_count() == 0 ? "no keys in this section" : OneOf(KeysOf(type));
  faults->Add(position, key, "an unknown key", allowed, suggestion);
  if (!suggestion.empty()) faults->Mute(suggestion);
}

void FillMessage(const Node& node, const std::string& key, Message* message,
                 const ParseContext& context) {
  const Descriptor* type = message->GetDescriptor();
  std::set<std::string> seen_names;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Node& name = node.keys[i];
    if (name.has_fault) continue;
    const FieldDescriptor* field = type->FindFieldByName(name.text);
    if (field == nullptr) {
      ReportUnknownKey(name.position, key, name.text, type, context.faults);
      continue;
    }
    const std::string field_key = Join(key, name.text);
    const bool adds_item = field->is_repeated() && name.is_text_format;
    if (!seen_names.insert(name.text).second && !adds_item) {
      context.faults->Add(name.position, field_key, "the key a second time", "each key once");
      continue;
    }
    FillField(node.items[i], field_key, field, message, context);
    // The position of a map is that of its own key, not of the first key in it.
    if (field->message_type() != nullptr && !adds_item)
      (*context.key_positions)[field_key] = name.position;
  }
}

void FillField(const Node& node, const std::string& key, const FieldDescriptor* field,
               Message* message, const ParseContext& context) {
  if (node.has_fault) return context.faults->Mute(key);
  if (ConflictsInOneof(node, key, field, *message, context)) return;
  if (!field->is_repeated()) return FillValue(node, key, field, message, context);

  const size_t num_items_before = ItemCount(field, *message);
  if (num_items_before == 0) (*context.key_positions)[key] = node.position;
  if (node.kind == Node::Kind::kList) {
    for (size_t i = 0; i < node.items.size(); ++i) {
      FillValue(node.items[i], Join(key, num_items_before + i), field, message, context);
    }
  } else if (IsAuto(node, field)) {
    AddAutoItem(field, message);
  } else if (node.is_text_format) {
    FillValue(node, Join(key, num_items_before), field, message, context);
  } else if (node.kind != Node::Kind::kNull) {
    ReportInvalidValue(node, key, field, context, AllowedField(field, context.tables));
  }
}

}  // namespace tern::config
