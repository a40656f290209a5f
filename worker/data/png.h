// PNG by libpng.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/data/image.h"

namespace tern::data {

// Decodes to one plane if the file is gray, else to RGB; palettes and depths below 8 bits are
// expanded, 16 bits rounded to 8, alpha dropped, gamma and profiles ignored. kBadData, without a
// name: damaged or truncated anywhere, too large.
Status DecodePng(std::span<const uint8_t> bytes, Image* image);

}  // namespace tern::data
