#include "worker/data/resize.h"

#include <algorithm>
#include <cmath>

namespace tern::data {
namespace {

// What each place of one side is made of: `count` weights from place `first` of the other on.
struct Weights {
  struct Place {
    uint32_t first = 0, count = 0;
    size_t at = 0;  // of its weights
  };
  std::vector<Place> places;
  std::vector<float> values;
};

Weights MakeWeights(uint32_t from, uint32_t to) {
  const double scale = static_cast<double>(from) / to;
  const double reach = std::max(1.0, scale);
  Weights weights;
  for (uint32_t i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const auto first = static_cast<uint32_t>(std::max(0.0, std::floor(center - reach + 0.5)));
    const auto end = static_cast<uint32_t>(
        std::min<double>(from, std::max(first + 1.0, std::floor(center + reach + 0.5))));
    Weights::Place place{first, end - first, weights.values.size()};
    double sum = 0;
    const auto weight = [&](uint32_t x) {
      return std::max(0.0, 1 - std::abs(x + 0.5 - center) / reach);
    };
    for (uint32_t x = first; x < end; ++x) sum += weight(x);
    for (uint32_t x = first; x < end; ++x)
      weights.values.push_back(static_cast<float>(weight(x) / sum));
    weights.places.push_back(place);
  }
  return weights;
}

}  // namespace

void ResizeBox(const Image& from, const Box& box, uint32_t height, uint32_t width, Image* to) {
  const Weights across = MakeWeights(box.width, width), down = MakeWeights(box.height, height);
  to->Resize(from.channels, height, width);
  std::vector<float> rows(size_t{box.height} * width), sums(width);
  for (uint32_t c = 0; c < from.channels; ++c) {
    const uint8_t* plane = from.pixels.data() + c * from.plane();
    for (uint32_t y = 0; y < box.height; ++y) {
      const uint8_t* in = plane + uint64_t{box.top + y} * from.width + box.left;
      float* out = rows.data() + size_t{y} * width;
      for (uint32_t x = 0; x < width; ++x) {
        const Weights::Place& place = across.places[x];
        float sum = 0;
        for (uint32_t k = 0; k < place.count; ++k)
          sum += across.values[place.at + k] * in[place.first + k];
        out[x] = sum;
      }
    }
    for (uint32_t y = 0; y < height; ++y) {
      const Weights::Place& place = down.places[y];
      std::fill(sums.begin(), sums.end(), 0.f);
      for (uint32_t k = 0; k < place.count; ++k) {
        const float weight = down.values[place.at + k];
        const float* row = rows.data() + size_t{place.first + k} * width;
        for (uint32_t x = 0; x < width; ++x) sums[x] += weight * row[x];
      }
      uint8_t* out = to->pixels.data() + c * to->plane() + uint64_t{y} * width;
      for (uint32_t x = 0; x < width; ++x)
        out[x] = static_cast<uint8_t>(std::clamp(sums[x] + 0.5f, 0.f, 255.f));
    }
  }
}

}  // namespace tern::data
