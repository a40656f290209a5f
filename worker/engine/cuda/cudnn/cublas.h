// Dense layers by cuBLASLt. Internal to the engine.
#pragma once

#include <memory>

#include "worker/engine/cuda/conv_library.h"

namespace tern::engine::cuda {

// Forwards everything else, and dense layers for which cuBLASLt has no algorithm, to `others`.
Result<std::unique_ptr<ConvLibrary>> MakeCublas(std::unique_ptr<ConvLibrary> others);

}  // namespace tern::engine::cuda
