// JPEG by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/data/image.h"

namespace tern::data {

// Decodes to one plane if the file is gray, else to RGB (also from CMYK as Adobe writes it), with
// the exact integer DCT and smooth chroma upsampling. kBadData, without a name: damaged or
// truncated anywhere, too large, more than kMaxJpegScans scans, an unsupported process.
Status DecodeJpeg(std::span<const uint8_t> bytes, Image* image);

inline constexpr int kMaxJpegScans = 200;

}  // namespace tern::data
