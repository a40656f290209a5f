// The convolution library that uses the simple kernels of this project (kernels/nn/conv.h).
#include "kernels/device/tiling.h"
#include "kernels/nn/conv.h"
#include "worker/device/device.h"
#include "worker/engine/cuda/conv_library.h"

namespace tern::engine::cuda {
namespace {

class LoopPlan : public ConvPlan {
 public:
  LoopPlan(const ConvShape& shape, ConvPass pass) : shape_(shape), pass_(pass) {}
  size_t workspace_bytes() const override { return 0; }
  Status Run(kernels::DeviceStream stream, const ConvData& data) override {
    return device::CheckCuda(Launch(stream, data), "our own convolution");
  }

 private:
  int Launch(kernels::DeviceStream stream, const ConvData& data) const {
    const auto& [slide, groups, type, allows_tf32, has_bias, has_relu] = shape_;
    switch (pass_) {
      case ConvPass::kBackwardData:
        return kernels::ConvBackwardDataOnDevice(stream, type, slide, groups, data.y, data.kernel,
                                                 data.x);
      case ConvPass::kBackwardWeights:
        return kernels::ConvBackwardWeightsOnDevice(stream, type, slide, groups, data.x, data.y,
                                                    data.kernel);
      case ConvPass::kForward:
        break;
    }
    return kernels::ConvForwardOnDevice(stream, type, slide, groups, data.x, data.kernel,
                                        has_bias ? data.bias : nullptr, has_relu, data.y);
  }

  const ConvShape shape_;
  const ConvPass pass_;
};

class LoopLibrary : public ConvLibrary {
 public:
  std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) override {
    return std::make_unique<LoopPlan>(shape, pass);
  }
};

}  // namespace

std::unique_ptr<ConvLibrary> MakeConvLoops() { return std::make_unique<LoopLibrary>(); }

}  // namespace tern::engine::cuda
