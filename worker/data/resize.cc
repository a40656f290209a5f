#include "worker/data/resize.h"

#include <algorithm>
#include <cmath>

namespace tern::data {
namespace {

// The interpolation weights of one axis. Output position i is the weighted sum of windows[i].count
// input positions from windows[i].first_input on.
struct AxisWeights {
  struct Window {
    uint32_t first_input = 0, count = 0;
    size_t weight_begin = 0;  // The index of the window's first weight in `values`.
  };
  std::vector<Window> windows;
  std::vector<float> values;
};

AxisWeights MakeAxisWeights(uint32_t input_size, uint32_t output_size) {
  const double scale = static_cast<double>(input_size) / output_size;
  const double radius = std::max(1.0, scale);
  AxisWeights weights;
  for (uint32_t i = 0; i < output_size; ++i) {
    const double center = (i + 0.5) * scale;
    const auto first_input =
        static_cast<uint32_t>(std::max(0.0, std::floor(center - radius + 0.5)));
    const auto end_input = static_cast<uint32_t>(std::min<double>(
        input_size, std::max(first_input + 1.0, std::floor(center + radius + 0.5))));
    AxisWeights::Window window{first_input, end_input - first_input, weights.values.size()};
    double weight_sum = 0;
    const auto weight_at = [&](uint32_t x) {
      return std::max(0.0, 1 - std::abs(x + 0.5 - center) / radius);
    };
    for (uint32_t x = first_input; x < end_input; ++x) weight_sum += weight_at(x);
    for (uint32_t x = first_input; x < end_input; ++x)
      weights.values.push_back(static_cast<float>(weight_at(x) / weight_sum));
    weights.windows.push_back(window);
  }
  return weights;
}

}  // namespace

void ResizeBox(const Image& image, const Box& box, uint32_t height, uint32_t width,
               Image* resized) {
  const AxisWeights horizontal_weights = MakeAxisWeights(box.width, width),
                    vertical_weights = MakeAxisWeights(box.height, height);
  resized->Resize(image.channels, height, width);
  std::vector<float> scaled_rows(size_t{box.height} * width), sums(width);
  for (uint32_t c = 0; c < image.channels; ++c) {
    const uint8_t* channel_pixels = image.pixels.data() + c * image.plane();
    for (uint32_t y = 0; y < box.height; ++y) {
      const uint8_t* input_row = channel_pixels + uint64_t{box.top + y} * image.width + box.left;
      float* output_row = scaled_rows.data() + size_t{y} * width;
      for (uint32_t x = 0; x < width; ++x) {
        const AxisWeights::Window& window = horizontal_weights.windows[x];
        float sum = 0;
        for (uint32_t k = 0; k < window.count; ++k)
          sum += horizontal_weights.values[window.weight_begin + k] *
                 input_row[window.first_input + k];
        output_row[x] = sum;
      }
    }
    for (uint32_t y = 0; y < height; ++y) {
      const AxisWeights::Window& window = vertical_weights.windows[y];
      std::fill(sums.begin(), sums.end(), 0.f);
      for (uint32_t k = 0; k < window.count; ++k) {
        const float weight = vertical_weights.values[window.weight_begin + k];
        const float* scaled_row = scaled_rows.data() + size_t{window.first_input + k} * width;
        for (uint32_t x = 0; x < width; ++x) sums[x] += weight * scaled_row[x];
      }
      uint8_t* output_row = resized->pixels.data() + c * resized->plane() + uint64_t{y} * width;
      for (uint32_t x = 0; x < width; ++x)
        output_row[x] = static_cast<uint8_t>(std::clamp(sums[x] + 0.5f, 0.f, 255.f));
    }
  }
}

}  // namespace tern::data
