// The convolution library that uses the simple kernels of this project (kernels/nn/conv.h).
#include "common/base/text.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/conv.h"
#include "worker/device/device.h"
#include "worker/engine/cuda/conv_library.h"

namespace tern::engine::cuda {
namespace {

class LoopPlan : public ConvPlan {
 public:
  LoopPlan(const ConvShape& shape, ConvPass pass) : shape_(shape), pass_(pass) {}
  size_t workspace_bytes() const override {
    const auto& [in, out, window] = shape_.slide;
    if (TakesNormGradient(shape_, pass_)) return kernels::ColumnWorkspaceBytes(in.pixels(), in.c);
    const size_t sums_bytes =
        AddsUp(shape_, pass_) ? kernels::ColumnWorkspaceBytes(out.pixels(), out.c) : 0;
    return NormalizedBytes() + sums_bytes;
  }
  Status Run(kernels::DeviceStream stream, const ConvData& data) override {
    if (!Normalizes(shape_, pass_))
      return device::CheckCuda(Launch(stream, data), "our own convolution");
    const kernels::DeviceImages& in = shape_.slide.in;
    TERN_RETURN_IF_ERROR(
        device::CheckCuda(kernels::NormalizeOnDevice(stream, shape_.type, in.pixels(), in.c, data.x,
                                                     data.norm, data.workspace),
                          "our own norm before a convolution"));
    ConvData normalized_data = data;
    normalized_data.x = data.workspace;
    normalized_data.workspace = static_cast<std::byte*>(data.workspace) + NormalizedBytes();
    return device::CheckCuda(Launch(stream, normalized_data), "our own convolution");
  }

 private:
  // The bytes at the begin of the workspace that have what takes the place of x. The rest is
  // aligned for doubles.
  size_t NormalizedBytes() const {
    if (!Normalizes(shape_, pass_)) return 0;
    constexpr size_t kMultiple = 16;
    const size_t bytes = shape_.slide.in.size() * kernels::BytesOf(shape_.type);
    return (bytes + kMultiple - 1) / kMultiple * kMultiple;
  }
  int Launch(kernels::DeviceStream stream, const ConvData& data) const {
    const kernels::DeviceSlide& slide = shape_.slide;
    const kernels::DeviceType type = shape_.type;
    const uint32_t groups = shape_.groups;
    switch (pass_) {
      case ConvPass::kBackwardData:
        return LaunchBackwardData(stream, data);
      case ConvPass::kBackwardWeights:
        return kernels::ConvBackwardWeightsOnDevice(stream, type, slide, groups, data.x, data.y,
                                                    data.kernel);
      case ConvPass::kForward:
        break;
    }
    const int error = kernels::ConvForwardOnDevice(stream, type, slide, groups, data.x, data.kernel,
                                                   shape_.has_bias ? data.bias : nullptr, data.y);
    if (error != 0 || !AddsUp(shape_, pass_)) return error;
    return kernels::ColumnMomentsOnDevice(stream, type, data.y, slide.out.pixels(), slide.out.c,
                                          data.workspace, data.sums);
  }
  int LaunchBackwardData(kernels::DeviceStream stream, const ConvData& data) const {
    const kernels::DeviceImages& in = shape_.slide.in;
    const int error = kernels::ConvBackwardDataOnDevice(stream, shape_.type, shape_.slide,
                                                        shape_.groups, data.y, data.kernel, data.x);
    if (error != 0 || !TakesNormGradient(shape_, pass_)) return error;
    return kernels::NormGradientOnDevice(stream, shape_.type, in.pixels(), in.c, data.norm_input,
                                         kernels::NormArraysAt(data.norm_arrays, in.c),
                                         data.workspace, data.x);
  }

  const ConvShape shape_;
  const ConvPass pass_;
};

class LoopLibrary : public ConvLibrary {
 public:
  explicit LoopLibrary(Planning* planning) : planning_(planning) {}
  std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) override {
    planning_->own_loops.insert(DescribePass(shape, pass));
    return std::make_unique<LoopPlan>(shape, pass);
  }

 private:
  Planning* const planning_;
};

}  // namespace

std::unique_ptr<ConvLibrary> MakeConvLoops(Planning* planning) {
  return std::make_unique<LoopLibrary>(planning);
}

std::string DescribePass(const ConvShape& shape, ConvPass pass) {
  const auto& [in, out, window] = shape.slide;
  const auto axis_text = [](const kernels::DeviceAxis& a) {
    return Cat(a.kernel, "/", a.stride, "/", a.dilation, "/", a.pad);
  };
  constexpr const char* kPasses[] = {"forward", "data", "weights"};
  constexpr const char* kTypes[] = {"fp32", "bf16", "fp16"};
  return Cat(kPasses[static_cast<int>(pass)], " ",
             shape.allows_tf32 ? "tf32" : kTypes[static_cast<int>(shape.type)], " ", in.n, "x",
             in.h, "x", in.w, "x", in.c, " to ", out.h, "x", out.w, "x", out.c, " by ",
             axis_text(window.rows), " ", axis_text(window.columns), " in ", shape.groups,
             pass == ConvPass::kForward && shape.has_bias ? ", bias" : "",
             AddsUp(shape, pass) ? ", sums" : "", Normalizes(shape, pass) ? ", norm" : "",
             TakesNormGradient(shape, pass) ? ", gradient of a norm" : "");
}

}  // namespace tern::engine::cuda
