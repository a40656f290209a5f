#include <string>

#include "models/builders.h"

namespace tern::models {
namespace {

// How the two variants of the net differ.
struct Variant {
  pb::Pad::Kind padding;
  bool has_relu_after_conv;
  bool is_truncated_normal;  // initial weights: truncated normal; else Xavier
};

void SetInit(const Variant& variant, float std, pb::Init* init) {
  if (variant.is_truncated_normal) {
    init->set_truncated_normal_std(std);
  } else {
    init->mutable_xavier();
  }
}

pb::LayerDef* AddLayer(pb::NetDef* net, const std::string& name) {
  pb::LayerDef* layer = net->add_layers();
  layer->set_name(name);
  return layer;
}

void AddConvAndPool(const Variant& variant, int index, uint32_t outputs, pb::NetDef* net) {
  const std::string number = std::to_string(index);
  pb::ConvDef* conv = AddLayer(net, "conv" + number)->mutable_conv();
  conv->set_outputs(outputs);
  conv->set_kernel(5);
  conv->set_padding(variant.padding);
  SetInit(variant, 0.05f, conv->mutable_weight_init());
  if (variant.has_relu_after_conv) AddLayer(net, "relu" + number)->mutable_relu();
  pb::PoolDef* pool = AddLayer(net, "pool" + number)->mutable_max_pool();
  pool->set_kernel(2);
  pool->set_stride(2);
  pool->set_padding(variant.padding);
}

}  // namespace

pb::NetDef LeNet(const BuildRequest& request) {
  const bool is_same_padded = request.model.padding() == pb::Model::same;
  const Variant variant = {is_same_padded ? pb::Pad::same : pb::Pad::valid, is_same_padded,
                           is_same_padded};
  pb::NetDef net;
  net.set_name(is_same_padded ? "lenet_same" : "lenet");
  AddConvAndPool(variant, 1, 20, &net);
  AddConvAndPool(variant, 2, 50, &net);
  pb::DenseDef* fc3 = AddLayer(&net, "fc3")->mutable_dense();
  fc3->set_outputs(500);
  SetInit(variant, 0.048f, fc3->mutable_weight_init());
  AddLayer(&net, "relu3")->mutable_relu();
  pb::DenseDef* logits = AddLayer(&net, "logits")->mutable_dense();
  logits->set_outputs(request.classes);
  SetInit(variant, 0.0767f, logits->mutable_weight_init());
  AddLayer(&net, "loss")->mutable_softmax_loss();
  return net;
}

}  // namespace tern::models
