// Decodes PNG images with libpng.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/data/image.h"

namespace tern::data {

// Decodes the file contents `bytes` to one plane if the image is gray, else to RGB. Expands
// palettes and samples of less than 8 bits, rounds samples of 16 bits to 8, drops alpha, and
// ignores gamma and color profiles. kBadData if the image is damaged or truncated anywhere, or is
// too large; the message does not name the file.
Status DecodePng(std::span<const uint8_t> bytes, Image* image);

}  // namespace tern::data
