// Upper limits of a network's sizes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::models {

inline constexpr int kMaxLayers = 10'000;
// The largest height, width, kernel or stride, and the most outputs, channels or classes.
inline constexpr uint32_t kMaxDim = 65'536;
// The most elements of all parameters together, and of any tensor of one image.
inline constexpr uint64_t kMaxElements = uint64_t{1} << 31;
// The most elements of the running statistics in a program's table. Each worker sends its own in
// one message, for which servers make room before they know who sends it.
inline constexpr uint64_t kMaxStatistics = uint64_t{1} << 22;
inline constexpr size_t kMaxLayerName = 128;  // characters
inline constexpr int kMaxInputs = 64;         // the most inputs of one layer

}  // namespace tern::models
