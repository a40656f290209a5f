// From bytes to the numbers that a net sees.
#pragma once

#include <array>
#include <cstdint>

#include "worker/data/dataset.h"

namespace tern::data {

using PixelTable = std::array<float, 256>;

// x -> x / 255 * scale + offset.
PixelTable MakePixelTable(float scale, float offset);
// Image `index` of the set as floats, [C, H, W].
void FillImage(const Dataset& dataset, uint64_t index, const PixelTable& table, float* out);

}  // namespace tern::data
