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

std::string Seen(const Node& node) {
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
  if (node.quoted) return "the text \"" + Shown(node.text) + "\"";
  return node.text_format ? Shown(node.text) + " without quotes" : Shown(node.text);
}

void ReportValue(const Node& node, const std::string& key, const FieldDescriptor* field,
                 const Reading& reading, const std::string& allowed) {
  std::string meant;
  if (field->enum_type() != nullptr) meant = Nearest(node.text, NamesOf(field->enum_type()));
  const bool text_wanted = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  const bool bare = node.kind == Node::Kind::kScalar && !node.quoted && !text_wanted;
  reading.faults->Add(node.at, key, bare ? Shown(node.text) : Seen(node), allowed, meant);
}

// False if the node is no value of the field's type.
bool PutValue(const Node& node, const std::string& key, const FieldDescriptor* field,
              Message* message, const Reading& reading) {
  if (field->message_type() == nullptr) {
    return node.kind == Node::Kind::kScalar && PutScalar(node, field, message);
  }
  if (node.kind != Node::Kind::kMap && node.kind != Node::Kind::kNull) return false;
  Message* nested = field->is_repeated() ? message->GetReflection()->AddMessage(message, field)
                                         : message->GetReflection()->MutableMessage(message, field);
  FillMessage(node, key, nested, reading);
  return true;
}

// Keeps the place of a list's item that is at fault, so that the next ones keep their numbers.
void AddPlaceholder(const FieldDescriptor* field, Message* message) {
  if (field->message_type() != nullptr) {
    message->GetReflection()->AddMessage(message, field);
    return;
  }
  Node zero;
  zero.kind = Node::Kind::kScalar;
  zero.text = field->enum_type() != nullptr ? field->enum_type()->value(0)->name()
              : field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? "false"
                                                                   : "0";
  PutScalar(zero, field, message);
}

// One value: the field, or one item of a repeated field.
void FillValue(const Node& node, const std::string& key, const FieldDescriptor* field,
               Message* message, const Reading& reading) {
  (*reading.origins)[key] = node.at;
  if (node.at_fault) {
    reading.faults->Mute(key);
  } else if (PutValue(node, key, field, message, reading)) {
    return;
  } else {
    ReportValue(node, key, field, reading, AllowedValue(field, reading.tables));
  }
  if (field->is_repeated()) AddPlaceholder(field, message);
}

// Items of a repeated field are numbered on from those that it has.
size_t SizeOf(const FieldDescriptor* field, const Message& message) {
  return static_cast<size_t>(message.GetReflection()->FieldSize(message, field));
}

// Whether another member of the field's oneof is set already; reports it.
bool TakesAnothersPlace(const Node& node, const std::string& key, const FieldDescriptor* field,
                        const Message& message, const Reading& reading) {
  const OneofDescriptor* choice = field->containing_oneof();
  if (choice == nullptr) return false;
  const FieldDescriptor* other = message.GetReflection()->GetOneofFieldDescriptor(message, choice);
  if (other == nullptr || other == field) return false;
  std::vector<std::string> names;
  for (int i = 0; i < choice->field_count(); ++i) names.push_back(choice->field(i)->name());
  reading.faults->Add(node.at, key, field->name() + " beside " + other->name(),
                      "only " + OneOf(names));
  return true;
}

}  // namespace

void ReportUnknownKey(const Position& at, const std::string& parent, const std::string& name,
                      const Descriptor* type, Faults* faults) {
  const std::string key = Join(parent, name);
  if (const std::string now(NameNow(key)); !now.empty()) {
    faults->Add(at, key, "a key that is called " + now + " now", now);
    return faults->Mute(now);
  }
  const std::string nearest = Nearest(name, KeysOf(type));
  std::string meant = nearest.empty() ? KeyElsewhere(name) : Join(parent, nearest);
  const std::string allowed = type->field_count() == 0 ? "no keys here" : OneOf(KeysOf(type));
  faults->Add(at, key, "an unknown key", allowed, meant);
  if (!meant.empty()) faults->Mute(meant);
}

void FillMessage(const Node& node, const std::string& key, Message* message,
                 const Reading& reading) {
  const Descriptor* type = message->GetDescriptor();
  std::set<std::string> seen;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Node& name = node.keys[i];
    if (name.at_fault) continue;
    const FieldDescriptor* field = type->FindFieldByName(name.text);
    if (field == nullptr) {
      ReportUnknownKey(name.at, key, name.text, type, reading.faults);
      continue;
    }
    const std::string field_key = Join(key, name.text);
    const bool gathers = field->is_repeated() && name.text_format;
    if (!seen.insert(name.text).second && !gathers) {
      reading.faults->Add(name.at, field_key, "the key a second time", "each key once");
      continue;
    }
    FillField(node.items[i], field_key, field, message, reading);
    // A map is where its key is, not where its first own key is.
    if (field->message_type() != nullptr && !gathers) (*reading.origins)[field_key] = name.at;
  }
}

void FillField(const Node& node, const std::string& key, const FieldDescriptor* field,
               Message* message, const Reading& reading) {
  if (node.at_fault) return reading.faults->Mute(key);
  if (TakesAnothersPlace(node, key, field, *message, reading)) return;
  if (!field->is_repeated()) return FillValue(node, key, field, message, reading);

  const size_t before = SizeOf(field, *message);
  if (before == 0) (*reading.origins)[key] = node.at;
  if (node.kind == Node::Kind::kList) {
    for (size_t i = 0; i < node.items.size(); ++i) {
      FillValue(node.items[i], Join(key, before + i), field, message, reading);
    }
  } else if (node.text_format) {
    FillValue(node, Join(key, before), field, message, reading);
  } else if (node.kind != Node::Kind::kNull) {
    ReportValue(node, key, field, reading, AllowedField(field, reading.tables));
  }
}

}  // namespace tern::config
