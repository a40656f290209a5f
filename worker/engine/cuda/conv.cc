// The convolution and the dense layer on a GPU. A dense layer is computed as the convolution of an
// image of one pixel by a window of one pixel.
#include "kernels/nn/conv.h"

#include "kernels/nn/device_images.h"
#include "kernels/nn/elementwise.h"
#include "worker/engine/cuda/conv_shape.h"
#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {
namespace {

// Appends the launches of a convolution to the program. Here, `kernel` means the weights, converted
// to the type and order that the convolution library takes; `bias` is converted, too.
class ConvOperation {
 public:
  ConvOperation(const LayerSpec& spec, const Inputs& inputs)
      : spec_(spec),
        inputs_(inputs),
        shape_(ConvShapeOf(spec)),
        parameter_inputs_(shape_.slide.in.c / shape_.groups) {}

  // `input` may have more channels than the layer (stored_channels.h).
  Value Forward(Program* program, const Value& input) {
    shape_.slide.in.c = input.image.c;
    shape_.normalizes = input.norm_buffer >= 0;
    shape_.takes_norm_gradient = input.norm_arrays_buffer >= 0;
    input_ = input;
    output_ = program->NewValue(spec_.output);
    if (shape_.has_sums)
      output_.sums_buffer = program->NewArray(size_t{2} * outputs() * sizeof(float)).buffer;
    kernel_ = AddKernel(program);
    bias_ = shape_.has_bias ? AddBias(program) : Value();
    AddPass(program, "convolution", ConvPass::kForward, input_, kernel_, output_);
    // A launch of its own: the ReLUs that cuDNN and cuBLASLt can add to a convolution make 0 of
    // NaN, so that a net that has diverged would train on with a finite loss.
    if (spec_.has_relu) AddRelu(program, output_);
    return output_;
  }

  Value Backward(Program* program, const Value& gradient, bool wanted) {
    const Value masked_gradient =
        spec_.has_relu ? AddReluBackward(program, output_, gradient) : gradient;
    if (!spec_.is_frozen) AddParameterGradients(program, masked_gradient);
    if (!wanted) return {};
    const Value input_gradient = program->NewValue(input_.image);
    AddPass(program, "convolution, gradient of its images", ConvPass::kBackwardData, input_gradient,
            kernel_, masked_gradient);
    return input_gradient;
  }

 private:
  // The numbers of output channels, of input channels in each group of the kernel, and of pixels of
  // the window.
  uint32_t outputs() const { return shape_.slide.out.c; }
  uint32_t inputs() const { return shape_.slide.in.c / shape_.groups; }
  uint32_t window_pixels() const {
    return shape_.slide.window.rows.kernel * shape_.slide.window.columns.kernel;
  }
  Value NewKernel(Program* program) const {
    return program->NewArray(size_t{outputs()} * inputs() * window_pixels() *
                             kernels::BytesOf(program->type()));
  }

  kernels::WeightArray WeightsOf(float* parameters) const {
    return {.parameters = parameters,
            .outputs = outputs(),
            .inputs = parameter_inputs_,
            .taps = window_pixels(),
            .kernel_inputs = inputs()};
  }

  Value AddKernel(Program* program) {
    const Value kernel = NewKernel(program);
    program->ConvertWeights(WeightsOf(spec_.parameters[0].values), kernel);
    return kernel;
  }
  Value AddBias(Program* program) {
    const Value bias = program->NewArray(outputs() * kernels::BytesOf(program->type()));
    program->ConvertWeights({.parameters = spec_.parameters[1].values, .outputs = outputs()}, bias);
    return bias;
  }

  void AddPass(Program* program, const char* what, ConvPass pass, const Value& x,
               const Value& kernel, const Value& y) {
    const std::shared_ptr<ConvPlan> plan = inputs_.convolutions->Plan(shape_, pass);
    const Value workspace = program->NewArray(plan->workspace_bytes());
    std::vector<Value> values = {x, kernel, y, workspace};
    // The arrays that only some passes have follow, and `places` says what each is.
    using Place = void (*)(void* array, ConvData* arrays);
    std::vector<Place> places;
    const auto add = [&](const Value& value, Place place) {
      values.push_back(value);
      places.push_back(place);
    };
    if (shape_.has_bias && pass == ConvPass::kForward)
      add(bias_, [](void* array, ConvData* arrays) { arrays->bias = array; });
    if (AddsUp(shape_, pass)) {
      add(SumsOf(y),
          [](void* array, ConvData* arrays) { arrays->sums = static_cast<float*>(array); });
    }
    if (Normalizes(shape_, pass))
      add(NormOf(x), [](void* array, ConvData* arrays) { arrays->norm = array; });
    if (TakesNormGradient(shape_, pass)) {
      add(input_, [](void* array, ConvData* arrays) { arrays->norm_input = array; });
      add(NormArraysOf(input_),
          [](void* array, ConvData* arrays) { arrays->norm_arrays = static_cast<float*>(array); });
    }
    program->CallOperation(what, values, [plan, places](auto stream, const auto& data) {
      ConvData arrays{.x = data[0], .kernel = data[1], .y = data[2], .workspace = data[3]};
      for (size_t i = 0; i < places.size(); ++i) places[i](data[4 + i], &arrays);
      return plan->Run(stream, arrays);
    });
  }

  void AddParameterGradients(Program* program, const Value& gradient) {
    const Value kernel_gradient = NewKernel(program);
    AddPass(program, "convolution, gradient of its weights", ConvPass::kBackwardWeights, input_,
            kernel_gradient, gradient);
    program->ConvertWeights(WeightsOf(spec_.parameters[0].gradient), kernel_gradient);
    if (!shape_.has_bias) return;
    const uint64_t rows = shape_.slide.out.pixels();
    const Value partial_sums =
        program->NewArray(kernels::PartialSumsOf(rows, outputs()) * sizeof(double));
    const Value counters =
        program->NewLastingArray(kernels::CountersOf(outputs()) * sizeof(uint32_t));
    program->Call("gradient of a bias", {gradient, partial_sums, counters},
                  [rows, columns = outputs(), bias_gradient = spec_.parameters[1].gradient,
                   type = program->type(), step = inputs_.step](auto stream, const auto& data) {
                    return kernels::ColumnSumsOnDevice(
                        stream, type, data[0], rows, columns, step,
                        {static_cast<double*>(data[1]), static_cast<uint32_t*>(data[2])},
                        bias_gradient);
                  });
  }

  const LayerSpec spec_;
  const Inputs inputs_;
  ConvShape shape_;
  const uint32_t parameter_inputs_;  // Input channels in each group of the parameters.
  Value input_, output_, kernel_, bias_;
};

class Conv : public Layer {
 public:
  Conv(const LayerSpec& spec, const Inputs& inputs) : convolution_(spec, inputs) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    return convolution_.Forward(program, inputs[0]);
  }
  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    return {convolution_.Backward(program, gradient, wanted[0])};
  }

 private:
  ConvOperation convolution_;
};

class Dense : public Layer {
 public:
  Dense(const LayerSpec& spec, const Inputs& inputs)
      : input_(spec.input()), convolution_(spec, inputs) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    return convolution_.Forward(program, Flatten(program, inputs[0]));
  }
  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    const Value flat_gradient = convolution_.Backward(program, gradient, wanted[0]);
    return {wanted[0] ? Unflatten(program, flat_gradient, input_) : Value()};
  }

 private:
  const models::ImageDims input_;
  ConvOperation convolution_;
};

}  // namespace

std::unique_ptr<Layer> MakeConv(const LayerSpec& spec, const Inputs& inputs) {
  return std::make_unique<Conv>(spec, inputs);
}
std::unique_ptr<Layer> MakeDense(const LayerSpec& spec, const Inputs& inputs) {
  return std::make_unique<Dense>(spec, inputs);
}

}  // namespace tern::engine::cuda
