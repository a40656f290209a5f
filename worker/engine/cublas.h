// Dense layers by cuBLASLt. Internal to the engine.
#pragma once

#include <memory>

#include "worker/engine/conv_library.h"

namespace tern::engine::cuda {

// What is no dense layer, or none that cuBLASLt has an algorithm for, is planned by `others`.
Result<std::unique_ptr<ConvLibrary>> MakeCublas(std::unique_ptr<ConvLibrary> others);

}  // namespace tern::engine::cuda
