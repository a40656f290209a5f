// Computes dense layers by cuBLASLt. Internal to the engine.
#pragma once

#include <memory>

#include "worker/engine/cuda/conv_library.h"

namespace tern::engine::cuda {

// Makes a library that uses cuBLASLt for dense layers, and the library `other_library` for all
// other shapes and for dense layers for which cuBLASLt has no algorithm.
Result<std::unique_ptr<ConvLibrary>> MakeCublas(std::unique_ptr<ConvLibrary> other_library);

}  // namespace tern::engine::cuda
