// Max and average pooling on the CPU, by kernels/nn/pool.h. Does not use oneDNN, whose fastest
// implementation without AVX-512 masks the last channels if their number is not a multiple of 8;
// some processors store such vectors 50 times more slowly. In training, the forward pass of max
// pooling records which element of each window is the largest.
#include "kernels/nn/pool.h"

#include "worker/engine/cpu/layers.h"
#include "worker/engine/slide.h"

namespace tern::engine {
namespace {

// The images of a batch, or their blocks of channels: what the kernels process one at a time.
class PoolImages {
 public:
  explicit PoolImages(const kernels::DeviceSlide& slide) : slide_(slide), num_(slide.in.n) {
    if (ActivationTag(slide.in.c) != kBlocked) return;
    constexpr uint32_t kBlock = 16;
    num_ *= slide.in.c / kBlock;
    slide_.in.c = slide_.out.c = kBlock;
  }
  const kernels::DeviceSlide& slide() const { return slide_; }
  // Calls work(index of the first element in the input, index in the output) for each image, on all
  // threads.
  template <typename Work>
  void ForEach(const Work& work) const {
    const size_t num_inputs = size_t{slide_.in.h} * slide_.in.w * slide_.in.c,
                 num_outputs = size_t{slide_.out.h} * slide_.out.w * slide_.out.c;
#pragma omp parallel for
    for (size_t i = 0; i < num_; ++i) work(i * num_inputs, i * num_outputs);
  }

 private:
  kernels::DeviceSlide slide_;
  size_t num_;
};

class MaxPool : public Layer {
 public:
  explicit MaxPool(const LayerSpec& spec)
      : is_training_(spec.is_training),
        input_desc_(ActivationDesc(DimsOf(spec.batch, spec.input()))),
        output_desc_(ActivationDesc(DimsOf(spec.batch, spec.output))),
        images_(SlideOf(spec, spec.def->max_pool())) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const Value output = program->NewValue(output_desc_);
    std::vector<Value> values = {program->Convert(inputs[0], input_desc_), output};
    if (is_training_) {
      winners_ = program->NewValue(DescOf(output_desc_.dims(), dnnl::memory::format_tag::nchw,
                                          dnnl::memory::data_type::bf16));  // as large as uint16_t
      values.push_back(winners_);
    }
    program->Call(values, [images = images_](const std::vector<float*>& data) {
      auto* winners = data.size() > 2 ? reinterpret_cast<uint16_t*>(data[2]) : nullptr;
      images.ForEach([&](size_t in, size_t out) {
        kernels::MaxPoolForward(images.slide(), data[0] + in, data[1] + out,
                                winners == nullptr ? nullptr : winners + out);
      });
    });
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->NewValue(input_desc_);
    program->Call({program->Convert(gradient, output_desc_), winners_, input_gradient},
                  [images = images_](const std::vector<float*>& data) {
                    const auto* winners = reinterpret_cast<const uint16_t*>(data[1]);
                    images.ForEach([&](size_t in, size_t out) {
                      kernels::MaxPoolBackward(images.slide(), data[0] + out, winners + out,
                                               data[2] + in);
                    });
                  });
    return {input_gradient};
  }

 private:
  const bool is_training_;
  const dnnl::memory::desc input_desc_, output_desc_;
  const PoolImages images_;
  Value winners_;  // Which element of each window is the largest.
};

class AvgPool : public Layer {
 public:
  explicit AvgPool(const LayerSpec& spec)
      : includes_padding_(spec.def->avg_pool().include_padding()),
        input_desc_(ActivationDesc(DimsOf(spec.batch, spec.input()))),
        output_desc_(ActivationDesc(DimsOf(spec.batch, spec.output))),
        images_(SlideOf(spec, spec.def->avg_pool())) {}

  Value Forward(Program* program, const std::vector<Value>& inputs) override {
    const Value output = program->NewValue(output_desc_);
    program->Call({program->Convert(inputs[0], input_desc_), output},
                  [images = images_, padding = includes_padding_](const std::vector<float*>& data) {
                    images.ForEach([&](size_t in, size_t out) {
                      kernels::AvgPoolForward(images.slide(), padding, data[0] + in, data[1] + out);
                    });
                  });
    return output;
  }

  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override {
    if (!wanted[0]) return {Value()};
    const Value input_gradient = program->NewValue(input_desc_);
    program->Call({program->Convert(gradient, output_desc_), input_gradient},
                  [images = images_, padding = includes_padding_](const std::vector<float*>& data) {
                    images.ForEach([&](size_t in, size_t out) {
                      kernels::AvgPoolBackward(images.slide(), padding, data[0] + out,
                                               data[1] + in);
                    });
                  });
    return {input_gradient};
  }

 private:
  const bool includes_padding_;
  const dnnl::memory::desc input_desc_, output_desc_;
  const PoolImages images_;
};

}  // namespace

std::unique_ptr<Layer> MakePool(const LayerSpec& spec) {
  if (spec.def->has_max_pool()) return std::make_unique<MaxPool>(spec);
  return std::make_unique<AvgPool>(spec);
}

}  // namespace tern::engine
