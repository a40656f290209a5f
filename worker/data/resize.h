// Scales images.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/data/image.h"

namespace tern::data {

// A rectangle of an image, in pixels.
struct Box {
  uint32_t top = 0, left = 0, height = 0, width = 0;
};

// Scales the rectangle `box` of `image` to height x width, by bilinear interpolation with
// antialiasing as in PIL and torchvision. Let the box have s pixels on an axis, and the output n:
// then the center of output pixel i lies at (i + 0.5) * s / n in the box. The pixel's value is the
// mean of the box's pixels within max(1, s / n) of that center, with weights that fall linearly to
// 0 at that distance. Pixels outside the box are not used. Each row is scaled first, then each
// column; sums are floats and are rounded to nearest once, so the result is the same on every
// machine. REQUIRES sides above 0, a box within the image, and `image` != `resized`. Any thread may
// call this.
void ResizeBox(const Image& image, const Box& box, uint32_t height, uint32_t width, Image* resized);

}  // namespace tern::data
