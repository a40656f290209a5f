// JPEG by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/data/image.h"

namespace tern::data {

// Decodes to one plane where the file is gray, else to RGB (CMYK, as Adobe writes it, too), with
// the exact integer DCT and smooth chroma. kBadData, without a name: damaged or truncated anywhere,
// too large, more than kMaxJpegScans passes over the image, a process that is not supported.
Status DecodeJpeg(std::span<const uint8_t> bytes, Image* image);

inline constexpr int kMaxJpegScans = 200;

}  // namespace tern::data
