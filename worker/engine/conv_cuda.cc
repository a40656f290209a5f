// Convolution, and the dense layer as the convolution of one pixel by a window of one pixel.
#include "worker/engine/layer_cuda.h"

namespace tern::engine::cuda {
namespace {

using kernels::DeviceSlide;

// Weights and a bias over windows of images.
class Windows {
 public:
  Windows(const LayerSpec& spec, const DeviceSlide& slide, uint32_t groups)
      : spec_(spec), slide_(slide), groups_(groups) {}

  Value Forward(Program* program, const Value& input, const models::ImageDims& output) {
    input_ = input;
    output_ = program->NewValue(output);
    const float* bias = spec_.parameters.size() > 1 ? spec_.parameters[1].values : nullptr;
    program->Call("convolution", {input_, output_},
                  [slide = slide_, groups = groups_, weight = spec_.parameters[0].values, bias,
                   relu = spec_.relu](auto stream, const auto& data) {
                    return kernels::ConvForwardOnDevice(stream, slide, groups, data[0], weight,
                                                        bias, relu, data[1]);
                  });
    return output_;
  }

  Value Backward(Program* program, const Value& gradient, bool wanted) {
    const Value masked = spec_.relu ? AddReluBackward(program, output_, gradient) : gradient;
    AddParameterGradients(program, masked);
    if (!wanted) return {};
    const Value input_gradient = program->NewValue(input_.image);
    program->Call("convolution, gradient of its images", {masked, input_gradient},
                  [slide = slide_, groups = groups_, weight = spec_.parameters[0].values](
                      auto stream, const auto& data) {
                    return kernels::ConvBackwardDataOnDevice(stream, slide, groups, data[0], weight,
                                                             data[1]);
                  });
    return input_gradient;
  }

 private:
  void AddParameterGradients(Program* program, const Value& gradient) {
    program->Call("convolution, gradient of its weights", {input_, gradient},
                  [slide = slide_, groups = groups_, to = spec_.parameters[0].gradient](
                      auto stream, const auto& data) {
                    return kernels::ConvBackwardWeightsOnDevice(stream, slide, groups, data[0],
                                                                data[1], to);
                  });
    if (spec_.parameters.size() < 2) return;
    program->Call("gradient of a bias", {gradient},
                  [rows = slide_.out.pixels(), columns = slide_.out.c,
                   to = spec_.parameters[1].gradient](auto stream, const auto& data) {
                    return kernels::ColumnSumsOnDevice(stream, data[0], rows, columns, to);
                  });
  }

  const LayerSpec spec_;
  const DeviceSlide slide_;
  const uint32_t groups_;
  Value input_, output_;
};

class Conv : public Layer {
 public:
  explicit Conv(const LayerSpec& spec)
      : output_(spec.output),
        windows_(spec, SlideOf(spec, spec.def->conv()), spec.def->conv().groups()) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    return windows_.Forward(program, inputs[0], output_);
  }
  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    return {windows_.Backward(program, gradient, wanted[0])};
  }

 private:
  const models::ImageDims output_;
  Windows windows_;
};

class Dense : public Layer {
 public:
  explicit Dense(const LayerSpec& spec)
      : input_(spec.input()),
        output_(spec.output),
        windows_(spec,
                 {{spec.batch, 1, 1, input_.c * input_.h * input_.w},
                  ImagesOf(spec.batch, spec.output),
                  {}},
                 /*groups=*/1) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    return windows_.Forward(program, Flatten(program, inputs[0]), output_);
  }
  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    const Value flat = windows_.Backward(program, gradient, wanted[0]);
    return {wanted[0] ? Unflatten(program, flat, input_) : Value()};
  }

 private:
  const models::ImageDims input_, output_;
  Windows windows_;
};

}  // namespace

std::unique_ptr<Layer> MakeConv(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Conv>(spec);
}
std::unique_ptr<Layer> MakeDense(const LayerSpec& spec, const Inputs&) {
  return std::make_unique<Dense>(spec);
}

}  // namespace tern::engine::cuda
