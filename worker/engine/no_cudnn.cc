// Builds without cuDNN, and tests on the CPU.
#include "worker/engine/conv_library.h"

namespace tern::engine::cuda {

Result<std::unique_ptr<ConvLibrary>> MakeConvLibrary(kernels::DeviceStream) {
  return MakeConvLoops();
}

}  // namespace tern::engine::cuda
