// Encoded images: JPEG or PNG, recognized by their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/base/status.h"
#include "worker/data/image.h"

namespace tern::data {

// Reads up to into.size() bytes from `offset` on; returns how many it read.
using ReadAt = std::function<size_t(uint64_t offset, std::span<uint8_t> into)>;

struct ImageHeader {
  uint32_t height = 0, width = 0;
};

// Reads the size from the header of a file of `size` bytes, with as few reads as possible.
// kBadData, a sentence without the file's name: empty, neither JPEG nor PNG, no size found, a side
// of zero, more than kMaxPixels.
Result<ImageHeader> ReadImageHeader(const ReadAt& read, uint64_t size);

// Decodes a JPEG or PNG to `channels` planes: 1 (luma: 0.299 R + 0.587 G + 0.114 B) or 3 (RGB).
// Converts gray, palettes, 16 bits and CMYK; drops alpha. The same bytes give the same pixels on
// every machine. kBadData, a sentence without a name: damaged, truncated, larger than kMaxPixels.
// Memory is bounded by the size of the image, which is bounded by the number of bytes.
Status DecodeImage(std::span<const uint8_t> bytes, uint32_t channels, Image* image);

}  // namespace tern::data
