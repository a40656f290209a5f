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

// An unambiguous serialization: numbers as 8 bytes little-endian, text preceded by its length. The
// digest does not hash Protocol Buffers' own bytes, because those may change between its versions.
class CanonicalBytes {
 public:
  void Number(uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void Text(const std::string& text) {
    Number(text.size());
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
      return out->Number(reflection.GetUInt32(message, &field));
    case Field::CPPTYPE_BOOL:
      return out->Number(reflection.GetBool(message, &field));
    case Field::CPPTYPE_ENUM:
      return out->Number(static_cast<uint64_t>(reflection.GetEnumValue(message, &field)));
    case Field::CPPTYPE_FLOAT:
      return out->Number(std::bit_cast<uint32_t>(reflection.GetFloat(message, &field)));
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
  out->Number(fields.size());
  for (const Field* field : fields) {
    out->Number(static_cast<uint64_t>(field->number()));
    PutField(message, *field, out);
  }
}

void PutLayer(const pb::LayerDef& layer, CanonicalBytes* out) {
  out->Text(layer.name());
  out->Number(layer.inputs_size());
  for (const std::string& input : layer.inputs()) out->Text(input);
  out->Text(layer.output());
  const Field* kind = pb::LayerDef::descriptor()->FindFieldByNumber(layer.kind_case());
  out->Text(kind == nullptr ? "" : kind->name());
  if (kind != nullptr) PutField(layer, *kind, out);
}

}  // namespace

uint64_t ModelDigest(const pb::NetDef& net) {
  const Result<pb::NetDef> complete = CompleteNet(net);
  const pb::NetDef& def = complete.ok() ? *complete : net;
  CanonicalBytes out;
  out.Text("tern model 2");
  out.Number(def.input().channels());
  out.Number(def.input().height());
  out.Number(def.input().width());
  out.Number(def.classes());
  out.Number(def.layers_size());
  for (const pb::LayerDef& layer : def.layers()) PutLayer(layer, &out);
  return Digest(out.bytes());
}

}  // namespace tern::models
