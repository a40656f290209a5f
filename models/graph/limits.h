// Upper limits of a network's sizes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::models {

inline constexpr int kMaxLayers = 10'000;
inline constexpr uint32_t kMaxDim = 65'536;  // of an image, a kernel, a stride, outputs, classes
// Elements of all parameters together, and of any one tensor.
inline constexpr uint64_t kMaxElements = uint64_t{1} << 31;
inline constexpr size_t kMaxLayerName = 128;
inline constexpr int kMaxInputs = 64;  // of a layer with several inputs

}  // namespace tern::models
