#include "models/net_builder.h"

namespace tern::models {

namespace {

void SetPool(const PoolShape& shape, pb::PoolDef* pool) {
  pool->set_kernel(shape.kernel);
  pool->set_stride(shape.stride);
  if (shape.has_same_padding) {
    pool->set_padding(pb::Pad::same);
  } else if (shape.pad > 0) {
    pool->set_pad(shape.pad);
  }
}

}  // namespace

pb::Init Constant(float value) {
  pb::Init init;
  init.set_constant(value);
  return init;
}
pb::Init NormalStd(float std) {
  pb::Init init;
  init.set_normal_std(std);
  return init;
}
pb::Init TruncatedNormalStd(float std) {
  pb::Init init;
  init.set_truncated_normal_std(std);
  return init;
}
pb::Init Xavier() {
  pb::Init init;
  init.mutable_xavier();
  return init;
}
pb::Init He(bool fan_out) {
  pb::Init init;
  init.mutable_he()->set_fan_out(fan_out);
  return init;
}

pb::Init Dirac() {
  pb::Init init;
  init.mutable_dirac();
  return init;
}

void NetBuilder::InitConvs(pb::Init weight, pb::Init bias) {
  conv_weight_ = std::move(weight);
  conv_bias_ = std::move(bias);
}
void NetBuilder::InitDense(pb::Init weight, pb::Init bias) {
  dense_weight_ = std::move(weight);
  dense_bias_ = std::move(bias);
}

pb::LayerDef* NetBuilder::AddLayer(const std::string& name) {
  pb::LayerDef* layer = net_.add_layers();
  layer->set_name(name);
  for (std::string& tensor : next_inputs_) layer->add_inputs(std::move(tensor));
  next_inputs_.clear();
  last_output_ = name;
  return layer;
}

void NetBuilder::Conv(const std::string& name, const ConvShape& shape) {
  pb::ConvDef* conv = AddLayer(name)->mutable_conv();
  conv->set_outputs(shape.outputs);
  conv->set_kernel(shape.kernel);
  conv->set_stride(shape.stride);
  if (shape.pad > 0) conv->set_pad(shape.pad);
  conv->set_groups(shape.groups);
  conv->set_bias(shape.has_bias);
  *conv->mutable_weight_init() = conv_weight_;
  *conv->mutable_bias_init() = conv_bias_;
}

void NetBuilder::Dense(const std::string& name, uint32_t outputs) {
  pb::DenseDef* dense = AddLayer(name)->mutable_dense();
  dense->set_outputs(outputs);
  *dense->mutable_weight_init() = dense_weight_;
  *dense->mutable_bias_init() = dense_bias_;
}

void NetBuilder::BatchNorm(const std::string& name, float epsilon, float momentum) {
  pb::BatchNormDef* norm = AddLayer(name)->mutable_batch_norm();
  norm->set_epsilon(epsilon);
  norm->set_momentum(momentum);
}

void NetBuilder::MaxPool(const std::string& name, const PoolShape& shape) {
  SetPool(shape, AddLayer(name)->mutable_max_pool());
}

void NetBuilder::AvgPool(const std::string& name, const PoolShape& shape) {
  SetPool(shape, AddLayer(name)->mutable_avg_pool());
}

void NetBuilder::GlobalMaxPool(const std::string& name) {
  AddLayer(name)->mutable_max_pool()->set_global(true);
}

void NetBuilder::GlobalAvgPool(const std::string& name) {
  AddLayer(name)->mutable_avg_pool()->set_global(true);
}

void NetBuilder::Lrn(const std::string& name, uint32_t size, float alpha, float beta, float k) {
  pb::LrnDef* lrn = AddLayer(name)->mutable_lrn();
  lrn->set_size(size);
  lrn->set_alpha(alpha);
  lrn->set_beta(beta);
  lrn->set_k(k);
}

void NetBuilder::Dropout(const std::string& name, double rate) {
  AddLayer(name)->mutable_dropout()->set_rate(static_cast<float>(rate));
}

void NetBuilder::Add(const std::string& name, std::vector<std::string> tensors) {
  next_inputs_ = std::move(tensors);
  AddLayer(name)->mutable_add();
}

void NetBuilder::Concat(const std::string& name, std::vector<std::string> tensors) {
  next_inputs_ = std::move(tensors);
  AddLayer(name)->mutable_concat();
}

pb::NetDef NetBuilder::Finish(float label_smoothing) {
  AddLayer("loss")->mutable_softmax_loss()->set_label_smoothing(label_smoothing);
  return std::move(net_);
}

}  // namespace tern::models
