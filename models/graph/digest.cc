#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <bit>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/logging.h"
#include "models/graph/complete.h"
#include "models/graph/shapes.h"

namespace tern::models {
namespace {

// An unambiguous serialization of a net: numbers as 8 bytes little-endian, text preceded by its
// length. The digest is not made from protobuf's own serialization, which may change between
// versions of protobuf.
class CanonicalBytes {
 public:
  void PutNumber(uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void PutText(const std::string& text) {
    PutNumber(text.size());
    bytes_ += text;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

using Field = google::protobuf::FieldDescriptor;

void PutMessage(const google::protobuf::Message& message, CanonicalBytes* out);

void PutField(const google::protobuf::Message& message, const Field& field, CanonicalBytes* out) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_UINT32:
      return out->PutNumber(reflection.GetUInt32(message, &field));
    case Field::CPPTYPE_BOOL:
      return out->PutNumber(reflection.GetBool(message, &field));
    case Field::CPPTYPE_ENUM:
      return out->PutNumber(static_cast<uint64_t>(reflection.GetEnumValue(message, &field)));
    case Field::CPPTYPE_FLOAT:
      return out->PutNumber(std::bit_cast<uint32_t>(reflection.GetFloat(message, &field)));
    case Field::CPPTYPE_MESSAGE:
      return PutMessage(reflection.GetMessage(message, &field), out);
    default:
      LOG(FATAL) << "no canonical form of " << field.full_name();
  }
}

// Writes the fields that are set, in the order of their numbers; there are no repeated fields.
void PutMessage(const google::protobuf::Message& message, CanonicalBytes* out) {
  std::vector<const Field*> fields;
  message.GetReflection()->ListFields(message, &fields);
  out->PutNumber(fields.size());
  for (const Field* field : fields) {
    out->PutNumber(static_cast<uint64_t>(field->number()));
    PutField(message, *field, out);
  }
}

void PutLayer(const pb::LayerDef& layer, CanonicalBytes* out) {
  out->PutText(layer.name());
  out->PutNumber(layer.inputs_size());
  for (const std::string& input : layer.inputs()) out->PutText(input);
  out->PutText(layer.output());
  const Field* kind_field = pb::LayerDef::descriptor()->FindFieldByNumber(layer.kind_case());
  out->PutText(kind_field == nullptr ? "" : kind_field->name());
  if (kind_field != nullptr) PutField(layer, *kind_field, out);
}

}  // namespace

uint64_t ModelDigest(const pb::NetDef& net) {
  const Result<pb::NetDef> complete_net = CompleteNet(net);
  const pb::NetDef& def = complete_net.ok() ? *complete_net : net;
  CanonicalBytes out;
  out.PutText("tern model 2");
  out.PutNumber(def.input().channels());
  out.PutNumber(def.input().height());
  out.PutNumber(def.input().width());
  out.PutNumber(def.classes());
  out.PutNumber(def.layers_size());
  for (const pb::LayerDef& layer : def.layers()) PutLayer(layer, &out);
  return Digest(out.bytes());
}

}  // namespace tern::models
