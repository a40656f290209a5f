// Sets or visits all keys of a job (a protobuf message) by reflection.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>
#include <string>

#include "common/config/fields.h"
#include "common/config/node.h"

namespace tern::config {

// Sets all sections of `message`: one item in every list of messages, and the first member of every
// oneof.
inline void Populate(google::protobuf::Message* message) {
  const auto* type = message->GetDescriptor();
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (field->message_type() == nullptr) continue;
    if (field->containing_oneof() != nullptr && field->index_in_oneof() != 0) continue;
    Populate(field->is_repeated() ? reflection->AddMessage(message, field)
                                  : reflection->MutableMessage(message, field));
  }
}

// Called with a scalar field of `message`, its full key, and whether the field or a section that
// contains it is local, that is, may differ between hosts.
using FieldVisitor = std::function<void(google::protobuf::Message* message,
                                        const google::protobuf::FieldDescriptor* field,
                                        const std::string& key, bool is_local)>;

// Visits the scalar fields of `message` and of all messages set in it. `key` is the key of
// `message` itself, and `is_local` tells whether `message` is part of a local section.
inline void ForEachScalar(google::protobuf::Message* message, const std::string& key, bool is_local,
                          const FieldVisitor& visit) {
  const auto* type = message->GetDescriptor();
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    const std::string field_key = Join(key, field->name());
    const bool is_field_local = is_local || RuleOf(field).local();
    if (field->message_type() == nullptr) {
      visit(message, field, field_key, is_field_local);
    } else if (field->is_repeated()) {
      for (int k = 0; k < reflection->FieldSize(*message, field); ++k) {
        ForEachScalar(reflection->MutableRepeatedMessage(message, field, k),
                      Join(field_key, static_cast<size_t>(k)), is_field_local, visit);
      }
    } else if (reflection->HasField(*message, field)) {
      ForEachScalar(reflection->MutableMessage(message, field), field_key, is_field_local, visit);
    }
  }
}

}  // namespace tern::config
