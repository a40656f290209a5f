#include "worker/data/pixels.h"

#include <algorithm>

namespace tern::data {

PixelTable MakePixelTable(float scale, float offset) {
  PixelTable table;
  for (size_t x = 0; x < table.size(); ++x)
    table[x] = static_cast<float>(x) / 255.0f * scale + offset;
  return table;
}

void FillImage(const Dataset& dataset, uint64_t index, const PixelTable& table, float* out) {
  const uint8_t* image = dataset.pixels.data() + index * dataset.image_size();
  std::transform(image, image + dataset.image_size(), out,
                 [&table](uint8_t x) { return table[x]; });
}

}  // namespace tern::data
