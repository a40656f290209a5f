// Scaling of images.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/data/image.h"

namespace tern::data {

// A range of an image, in pixels.
struct Box {
  uint32_t top = 0, left = 0, height = 0, width = 0;
};

// Scales `box` of `from` to height x width, bilinear with antialiasing: the center of output pixel
// i of n is at (i + 0.5) * s / n of the box's s pixels; its value is the mean of the pixels within
// max(1, s / n) of that center, weighted by a triangle (as in PIL and torchvision). Pixels outside
// the box are not used. Rows first, then columns; sums in float, rounded to nearest once, so the
// same on every machine. REQUIRES sides above 0, a box within the image, and `from` != `to`. Any
// thread.
void ResizeBox(const Image& from, const Box& box, uint32_t height, uint32_t width, Image* to);

}  // namespace tern::data
