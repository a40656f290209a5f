// The views of a test image whose scores are averaged (the job's evaluation.views; arXiv
// 2404.00498, section 3.5).
#pragma once

#include <cstdint>
#include <span>

#include "proto/evaluation.pb.h"

namespace tern::data {

struct View {
  bool is_mirrored = false;  // left and right are exchanged, after the shift
  // By how many rows up and columns left the image is moved, -1 to 1. What becomes visible at the
  // border is reflected (reflect.h).
  int32_t shift = 0;
  double weight = 1;  // of the view's scores; those of all views add up to 1
};

// The span is valid for the whole program.
std::span<const View> ViewsOf(pb::Evaluation::Views views);

// Writes the image `planes` [num_planes, height, width] as `view` shows it to `out`, of the same
// shape. REQUIRES arrays that do not overlap.
void ShowView(const View& view, const uint8_t* planes, uint64_t num_planes, uint32_t height,
              uint32_t width, uint8_t* out);

}  // namespace tern::data
