// Computes depthwise convolutions with a window of 3 x 3 by our own kernels
// (kernels/nn/depthwise.h). cuDNN's are slower than the memory, and it compiles most of them when a
// plan is made.
#include "kernels/nn/depthwise.h"

#include <utility>

#include "worker/device/device.h"
#include "worker/engine/cuda/conv_library.h"

namespace tern::engine::cuda {
namespace {

class DepthwisePlan : public ConvPlan {
 public:
  DepthwisePlan(const ConvShape& shape, ConvPass pass) : shape_(shape), pass_(pass) {}
  size_t workspace_bytes() const override {
    return pass_ == ConvPass::kBackwardWeights
               ? kernels::DepthwiseWorkspaceBytes(shape_.type, shape_.slide)
               : 0;
  }
  Status Run(kernels::DeviceStream stream, const ConvData& data) override {
    return device::CheckCuda(Launch(stream, data), "our own depthwise convolution");
  }

 private:
  int Launch(kernels::DeviceStream stream, const ConvData& data) const {
    switch (pass_) {
      case ConvPass::kBackwardData:
        return kernels::DepthwiseBackwardDataOnDevice(stream, shape_.type, shape_.slide, data.y,
                                                      data.kernel, data.x);
      case ConvPass::kBackwardWeights:
        return kernels::DepthwiseBackwardWeightsOnDevice(stream, shape_.type, shape_.slide, data.x,
                                                         data.y, data.workspace, data.kernel);
      case ConvPass::kForward:
        break;
    }
    return kernels::DepthwiseForwardOnDevice(stream, shape_.type, shape_.slide, data.x, data.kernel,
                                             shape_.has_bias ? data.bias : nullptr, data.y);
  }

  const ConvShape shape_;
  const ConvPass pass_;
};

class DepthwiseLibrary : public ConvLibrary {
 public:
  explicit DepthwiseLibrary(std::unique_ptr<ConvLibrary> other_library)
      : other_library_(std::move(other_library)) {}
  std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) override {
    if (HelpsNorm(shape, pass) || !kernels::IsDepthwise(shape.slide, shape.groups))
      return other_library_->Plan(shape, pass);
    return std::make_unique<DepthwisePlan>(shape, pass);
  }

 private:
  const std::unique_ptr<ConvLibrary> other_library_;
};

}  // namespace

std::unique_ptr<ConvLibrary> WithDepthwise(std::unique_ptr<ConvLibrary> other_library) {
  return std::make_unique<DepthwiseLibrary>(std::move(other_library));
}

}  // namespace tern::engine::cuda
