// The convolution library of builds without cuDNN, and of tests that simulate a GPU on the CPU.
#include "kernels/device/tiling.h"
#include "worker/engine/cuda/conv_library.h"

namespace tern::engine::cuda {

Result<std::unique_ptr<ConvLibrary>> MakeConvLibrary(kernels::DeviceStream, Planning* planning) {
  return WithDepthwise(MakeConvLoops(planning));
}

std::string ConvLibraryName() { return "without cuDNN"; }

}  // namespace tern::engine::cuda
