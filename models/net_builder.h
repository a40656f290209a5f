// Writes a NetDef layer by layer. A layer reads the output of the previous layer, or the tensors
// that the caller names (SetNextInput, Add, Concat).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/net.pb.h"

namespace tern::models {

pb::Init Constant(float value);
pb::Init NormalStd(float std);
pb::Init TruncatedNormalStd(float std);
pb::Init Xavier();
// He's initialization: normal, with variance 2 / fan_out if `fan_out`, else 2 / fan_in.
pb::Init He(bool fan_out);
// The first outputs copy the inputs (DiracDef).
pb::Init Dirac();

struct ConvShape {
  uint32_t outputs = 0, kernel = 0;
  uint32_t stride = 1;
  uint32_t pad = 0;  // rows and columns of zeros on every side
  uint32_t groups = 1;
  bool has_bias = true;
};

struct PoolShape {
  uint32_t kernel = 0, stride = 0;
  uint32_t pad = 0;
  bool has_same_padding = false;  // replaces `pad`: pads so that output = ceil(input / stride)
};

class NetBuilder {
 public:
  explicit NetBuilder(const std::string& name) { net_.set_name(name); }

  // Set the initial weights and biases of all convolutions, or dense layers, added after the call.
  void InitConvs(pb::Init weight, pb::Init bias = Constant(0));
  void InitDense(pb::Init weight, pb::Init bias = Constant(0));

  // Makes the next layer read this tensor instead of the previous layer's output.
  void SetNextInput(std::string tensor) { next_inputs_ = {std::move(tensor)}; }
  // The output tensor of the newest layer.
  const std::string& last_output() const { return last_output_; }

  // Each of the next functions adds a layer of its kind; Add and Concat read the given tensors.
  void Conv(const std::string& name, const ConvShape& shape);
  void Dense(const std::string& name, uint32_t outputs);
  void BatchNorm(const std::string& name, float epsilon = 1e-5f, float momentum = 0.1f);
  void Relu(const std::string& name) { AddLayer(name)->mutable_relu(); }
  void Gelu(const std::string& name) { AddLayer(name)->mutable_gelu(); }
  void Scale(const std::string& name, float factor) {
    AddLayer(name)->mutable_scale()->set_factor(factor);
  }
  void MaxPool(const std::string& name, const PoolShape& shape);
  void AvgPool(const std::string& name, const PoolShape& shape);
  void GlobalMaxPool(const std::string& name);
  void GlobalAvgPool(const std::string& name);
  void Lrn(const std::string& name, uint32_t size, float alpha, float beta, float k);
  void Dropout(const std::string& name, double rate);
  void Add(const std::string& name, std::vector<std::string> tensors);
  void Concat(const std::string& name, std::vector<std::string> tensors);
  // Adds the loss and returns the net. No call may follow.
  pb::NetDef Finish(float label_smoothing = 0);

 private:
  // Adds a layer with that name; the caller sets its kind.
  pb::LayerDef* AddLayer(const std::string& name);

  pb::NetDef net_;
  pb::Init conv_weight_ = Xavier(), conv_bias_ = Constant(0);
  pb::Init dense_weight_ = Xavier(), dense_bias_ = Constant(0);
  std::vector<std::string>
      next_inputs_;  // inputs of the next layer; empty: the output of the previous layer
  std::string last_output_ = "data";
};

}  // namespace tern::models
