// Decodes JPEG images with libjpeg-turbo.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/data/image.h"

namespace tern::data {

// Decodes the file contents `bytes` to one plane if the image is gray, else to RGB (also from
// CMYK), with libjpeg's accurate integer DCT and smooth chroma upsampling. kBadData if the image is
// damaged or truncated anywhere, is too large, has more than kMaxJpegScans scans, or uses an
// unsupported coding process. The message does not name the file.
Status DecodeJpeg(std::span<const uint8_t> bytes, Image* image);

// The most scans of a progressive JPEG. A small file with very many scans would take too long.
inline constexpr int kMaxJpegScans = 200;

}  // namespace tern::data
