// The interface of a layer of the GPU engine. A layer appends its kernel launches to the program
// (the net's list of launches, program.h) when the net is planned, and is then destroyed; only the
// launches remain. The table of layers.h names the function that makes each kind of layer. The
// parameters, gradients and statistics in the layer's LayerSpec are on the device. Internal to the
// engine.
#pragma once

#include <memory>
#include <vector>

#include "kernels/nn/device_images.h"
#include "kernels/nn/rows.h"
#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/cuda/program.h"
#include "worker/engine/layer_spec.h"
#include "worker/engine/slide.h"

namespace tern::engine::cuda {

class Layer {
 public:
  virtual ~Layer() = default;
  // Appends the forward launches; returns the output.
  virtual Value Forward(Program* program, const std::vector<Value>& inputs) = 0;
  // Appends the backward launches. `gradient` is the gradient of the output. Returns one gradient
  // per input; gradients of inputs for which `wanted` is false are unspecified. REQUIRES that
  // Forward was called.
  virtual std::vector<Value> Backward(Program* program, const Value& gradient,
                                      const std::vector<bool>& wanted) = 0;
};

// What layers use besides their input tensors. The first three members point to device memory.
struct Inputs {
  const kernels::DeviceStep* step = nullptr;  // The values that change from step to step.
  const uint32_t* labels = nullptr;
  kernels::DeviceLoss* losses = nullptr;  // The results of the loss, one per sample.
  ConvLibrary* convolutions = nullptr;    // Used only while the net is planned.
};

// Appends the launch of a ReLU that writes its output over `value`.
void AddRelu(Program* program, const Value& value);
// Appends the backward launch of a ReLU: returns `gradient` where the ReLU's `output` is above 0,
// else 0.
Value AddReluBackward(Program* program, const Value& output, const Value& gradient);
// Appends the launch of a + b, followed by a ReLU if `has_relu`.
Value AddSum(Program* program, const Value& a, const Value& b, bool has_relu);
// Flatten appends the conversion of images, which are stored channels last, to rows of c * h * w
// elements in the order [c, h, w]. Unflatten converts such rows back to images of the shape
// `image`. For images of one pixel both orders are the same, and nothing is launched.
Value Flatten(Program* program, const Value& value);
Value Unflatten(Program* program, const Value& value, const models::ImageDims& image);

}  // namespace tern::engine::cuda
