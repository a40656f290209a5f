#include <bit>
#include <string>

#include "common/base/hash.h"
#include "models/complete.h"
#include "models/shapes.h"

namespace tern::models {
namespace {

// Bytes with one meaning: numbers as 8 bytes little-endian, text with its length before it.
// Protocol Buffers' own bytes may change with its version, so they are not what is hashed.
class Canonical {
 public:
  void Number(uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void Text(const std::string& text) {
    Number(text.size());
    bytes_ += text;
  }
  void Init(const pb::Init& init) {
    Number(init.kind_case());
    float value = 0;
    if (init.has_constant()) value = init.constant();
    if (init.has_normal_std()) value = init.normal_std();
    if (init.has_truncated_normal_std()) value = init.truncated_normal_std();
    Number(std::bit_cast<uint32_t>(value));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

template <typename Window>
void PutWindow(const Window& window, Canonical* out) {
  out->Number(window.kernel());
  out->Number(window.stride());
  out->Number(window.padding());
}

template <typename Def>
void PutWeights(const Def& def, Canonical* out) {
  out->Number(def.outputs());
  out->Init(def.weight_init());
  out->Init(def.bias_init());
}

void PutLayer(const pb::LayerDef& layer, Canonical* out) {
  out->Text(layer.name());
  out->Number(layer.inputs_size());
  for (const std::string& input : layer.inputs()) out->Text(input);
  out->Text(layer.output());
  out->Text(KindName(layer));
  if (layer.has_conv()) {
    PutWeights(layer.conv(), out);
    PutWindow(layer.conv(), out);
  }
  if (layer.has_max_pool()) PutWindow(layer.max_pool(), out);
  if (layer.has_dense()) PutWeights(layer.dense(), out);
}

}  // namespace

uint64_t ModelDigest(const pb::NetDef& net) {
  const Result<pb::NetDef> complete = CompleteNet(net);
  const pb::NetDef& def = complete.ok() ? *complete : net;
  Canonical out;
  out.Text("tern model 1");
  out.Number(def.input().channels());
  out.Number(def.input().height());
  out.Number(def.input().width());
  out.Number(def.classes());
  out.Number(def.layers_size());
  for (const pb::LayerDef& layer : def.layers()) PutLayer(layer, &out);
  return Digest(out.bytes());
}

}  // namespace tern::models
