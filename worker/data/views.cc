#include "worker/data/views.h"

#include "worker/data/reflect.h"

namespace tern::data {
namespace {

constexpr View kOne[] = {{}};
constexpr View kMirrored[] = {{.weight = 0.5}, {.is_mirrored = true, .weight = 0.5}};
constexpr View kShifted[] = {
    {.weight = 0.25},
    {.is_mirrored = true, .weight = 0.25},
    {.shift = 1, .weight = 0.125},
    {.is_mirrored = true, .shift = 1, .weight = 0.125},
    {.shift = -1, .weight = 0.125},
    {.is_mirrored = true, .shift = -1, .weight = 0.125},
};

}  // namespace

std::span<const View> ViewsOf(pb::Evaluation::Views views) {
  switch (views) {
    case pb::Evaluation::one:
      return kOne;
    case pb::Evaluation::mirrored:
      return kMirrored;
    case pb::Evaluation::shifted:
      return kShifted;
  }
  return kOne;
}

void ShowView(const View& view, const uint8_t* planes, uint64_t num_planes, uint32_t height,
              uint32_t width, uint8_t* out) {
  for (uint64_t plane = 0; plane < num_planes; ++plane, planes += uint64_t{height} * width) {
    for (int64_t y = 0; y < height; ++y) {
      const uint8_t* row = planes + Reflected(y + view.shift, height) * width;
      for (int64_t x = 0; x < width; ++x)
        *out++ = row[Reflected((view.is_mirrored ? width - 1 - x : x) + view.shift, width)];
    }
  }
}

}  // namespace tern::data
