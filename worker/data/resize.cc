#include "worker/data/resize.h"

#include <algorithm>
#include <cmath>

namespace tern::data {
namespace {

// The interpolation weights of one axis. Output position i is the weighted sum of windows[i].count
// input positions from windows[i].first on.
struct Weights {
  struct Window {
    uint32_t first = 0, count = 0;
    size_t weight_begin = 0;  // The index of the window's first weight in `weights`.
  };
  std::vector<Window> windows;
  std::vector<float> weights;
};

Weights MakeWeights(uint32_t from, uint32_t to) {
  const double scale = static_cast<double>(from) / to;
  const double radius = std::max(1.0, scale);
  Weights weights;
  for (uint32_t i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const auto first = static_cast<uint32_t>(std::max(0.0, std::floor(center - radius + 0.5)));
    const auto end = static_cast<uint32_t>(
        std::min<double>(from, std::max(first + 1.0, std::floor(center + radius + 0.5))));
    Weights::Window window{first, end - first, weights.weights.size()};
    double sum = 0;
    const auto weight = [&](uint32_t x) {
      return std::max(0.0, 1 - std::abs(x + 0.5 - center) / radius);
    };
    for (uint32_t x = first; x < end; ++x) sum += weight(x);
    for (uint32_t x = first; x < end; ++x)
      weights.weights.push_back(static_cast<float>(weight(x) / sum));
    weights.windows.push_back(window);
  }
  return weights;
}

}  // namespace

void ResizeBox(const Image& from, const Box& box, uint32_t height, uint32_t width, Image* to) {
  const Weights horizontal = MakeWeights(box.width, width),
                vertical = MakeWeights(box.height, height);
  to->Resize(from.channels, height, width);
  std::vector<float> rows(size_t{box.height} * width), sums(width);
  for (uint32_t c = 0; c < from.channels; ++c) {
    const uint8_t* plane = from.pixels.data() + c * from.plane();
    for (uint32_t y = 0; y < box.height; ++y) {
      const uint8_t* in = plane + uint64_t{box.top + y} * from.width + box.left;
      float* out = rows.data() + size_t{y} * width;
      for (uint32_t x = 0; x < width; ++x) {
        const Weights::Window& window = horizontal.windows[x];
        float sum = 0;
        for (uint32_t k = 0; k < window.count; ++k)
          sum += horizontal.weights[window.weight_begin + k] * in[window.first + k];
        out[x] = sum;
      }
    }
    for (uint32_t y = 0; y < height; ++y) {
      const Weights::Window& window = vertical.windows[y];
      std::fill(sums.begin(), sums.end(), 0.f);
      for (uint32_t k = 0; k < window.count; ++k) {
        const float weight = vertical.weights[window.weight_begin + k];
        const float* row = rows.data() + size_t{window.first + k} * width;
        for (uint32_t x = 0; x < width; ++x) sums[x] += weight * row[x];
      }
      uint8_t* out = to->pixels.data() + c * to->plane() + uint64_t{y} * width;
      for (uint32_t x = 0; x < width; ++x)
        out[x] = static_cast<uint8_t>(std::clamp(sums[x] + 0.5f, 0.f, 255.f));
    }
  }
}

}  // namespace tern::data
