// Converts bytes to images (pixels.h) on a CPU.
#include <utility>

#include "kernels/nn/pixels.h"
#include "kernels/nn/pixels_math.h"

namespace tern::kernels {
namespace {

// Returns the sum of term(value) over n values, added in lanes (pixels_math.h).
template <typename Term>
double Sum(const float* values, uint64_t n, const Term& term) {
  double lanes[kPixelLanes] = {};
  uint64_t i = 0;
  for (; i + kPixelLanes <= n; i += kPixelLanes) {
    for (uint64_t lane = 0; lane < kPixelLanes; ++lane) lanes[lane] += term(values[i + lane]);
  }
  for (uint64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += term(values[i]);
  return SumOfLanes(lanes);
}

// Changes n values so that their mean is 0 and their deviation 1, or less (StandardFactor) if they
// are nearly equal.
void Standardize(float* values, uint64_t n) {
  const auto count = static_cast<double>(n);
  const double mean = Sum(values, n, [](double x) { return x; }) / count;
  const double squares = Sum(values, n, [mean](double x) { return (x - mean) * (x - mean); });
  const auto center = static_cast<float>(mean);
  const float factor = StandardFactor(squares, count);
  for (uint64_t i = 0; i < n; ++i) values[i] = (values[i] - center) * factor;
}

}  // namespace

PixelTables::PixelTables(PixelRule rule) : rule_(std::move(rule)), tables_(rule_.channels.size()) {
  for (size_t c = 0; c < tables_.size(); ++c) {
    for (size_t x = 0; x < tables_[c].size(); ++x) {
      const auto value = static_cast<float>(x);
      tables_[c][x] = rule_.changes_colors ? value : ScalePixel(rule_.channels[c], value);
    }
  }
}

void PixelTables::ToFloats(const uint8_t* bytes, uint32_t height, uint32_t width,
                           const PixelDraws& draws, float* out) const {
  const uint64_t plane_size = uint64_t{height} * width;
  float* to = out;
  for (const auto& table : tables_) {
    for (uint32_t y = 0; y < height; ++y, bytes += width, to += width) {
      if (draws.is_mirrored != 0) {
        for (uint32_t x = 0; x < width; ++x) to[x] = table[bytes[width - 1 - x]];
      } else {
        for (uint32_t x = 0; x < width; ++x) to[x] = table[bytes[x]];
      }
    }
  }
  if (rule_.changes_colors) ChangeColors(draws, plane_size, out);
  if (rule_.standardizes) Standardize(out, tables_.size() * plane_size);
}

void PixelTables::ChangeColors(const PixelDraws& draws, uint64_t plane_size, float* out) const {
  for (const ChannelScale& channel : rule_.channels) {
    for (uint64_t i = 0; i < plane_size; ++i)
      out[i] = BrightenPixel(out[i], draws.brightness_shift);
    const auto mean = static_cast<float>(Sum(out, plane_size, [](double x) { return x; }) /
                                         static_cast<double>(plane_size));
    for (uint64_t i = 0; i < plane_size; ++i)
      out[i] = ScalePixel(channel, ChangeContrast(out[i], mean, draws.contrast));
    out += plane_size;
  }
}

}  // namespace tern::kernels
