#include "common/config/key_digests.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <functional>
#include <memory>

#include "common/base/hash.h"
#include "common/config/canonical.h"
#include "common/config/fields.h"
#include "proto/net.pb.h"

namespace tern::config {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

// Calls `visit` for each key of `type`, with the message of that type that has the key; null if the
// job does not have the section.
using Visit = std::function<void(const std::string& name, const FieldDescriptor* field,
                                 const Message* section)>;

void ForEachSharedKey(const Descriptor* type, const Message* section, const std::string& prefix,
                      const Visit& visit) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (RuleOf(field).local()) continue;
    const std::string name = prefix + field->name();
    const Descriptor* field_type = field->message_type();
    const bool is_section = field_type != nullptr && !field->is_repeated() &&
                            field_type->file() != pb::NetDef::descriptor()->file();
    if (!is_section) {
      visit(name, field, section);
      continue;
    }
    const bool is_set = section != nullptr && section->GetReflection()->HasField(*section, field);
    ForEachSharedKey(field_type,
                     is_set ? &section->GetReflection()->GetMessage(*section, field) : nullptr,
                     name + ".", visit);
  }
}

bool HasValue(const FieldDescriptor* field, const Message& section) {
  const auto* reflection = section.GetReflection();
  return field->is_repeated() ? reflection->FieldSize(section, field) != 0
                              : reflection->HasField(section, field);
}

// Returns the digest of the value of one field, which never is 0.
uint32_t DigestOfValue(const FieldDescriptor* field, const Message& section) {
  // A message that has only this field.
  const std::unique_ptr<Message> copy(section.New());
  copy->CopyFrom(section);
  std::vector<const FieldDescriptor*> set_fields;
  copy->GetReflection()->ListFields(*copy, &set_fields);
  for (const FieldDescriptor* other : set_fields) {
    if (other != field) copy->GetReflection()->ClearField(copy.get(), other);
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    copy->SerializeToCodedStream(&out);
  }
  return static_cast<uint32_t>(Digest(std::string_view(bytes)) >> 32) | 1;
}

}  // namespace

const std::vector<std::string>& SharedKeys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> names;
    ForEachSharedKey(pb::Job::descriptor(), nullptr, "",
                     [&](const std::string& name, const FieldDescriptor*, const Message*) {
                       names.push_back(name);
                     });
    return names;
  }();
  return keys;
}

std::vector<uint32_t> KeyDigests(const pb::Job& job) {
  const pb::Job canonical_job = WithoutLocalKeys(job);
  std::vector<uint32_t> digests;
  ForEachSharedKey(pb::Job::descriptor(), &canonical_job, "",
                   [&](const std::string&, const FieldDescriptor* field, const Message* section) {
                     const bool has_value = section != nullptr && HasValue(field, *section);
                     digests.push_back(has_value ? DigestOfValue(field, *section) : 0);
                   });
  return digests;
}

}  // namespace tern::config
