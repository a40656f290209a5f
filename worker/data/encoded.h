// Reads encoded images, JPEG or PNG. The first bytes of an image tell which of the two it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/base/status.h"
#include "worker/data/image.h"

namespace tern::data {

// A function that reads up to buffer.size() bytes of a file from `offset` on to `buffer`, and
// returns how many it has read.
using ReadFunction = std::function<size_t(uint64_t offset, std::span<uint8_t> buffer)>;

struct ImageHeader {
  uint32_t height = 0, width = 0;
};

// Reads the image's height and width from a file of `size` bytes, without decoding the image.
// kBadData if the file is empty, is neither JPEG nor PNG, or does not state a size, or if a side is
// 0 or the image has more than kMaxPixels pixels. The message does not name the file.
Result<ImageHeader> ReadImageHeader(const ReadFunction& read, uint64_t size);

// Decodes a JPEG or PNG to `channels` planes: 1 (luma: 0.299 R + 0.587 G + 0.114 B) or 3 (RGB).
// Converts gray, palettes, 16-bit samples and CMYK; drops alpha. The same bytes give the same
// pixels on every machine. kBadData if the image is damaged or truncated, or has more than
// kMaxPixels pixels, or if its header claims more pixels than so few bytes can encode; the message
// does not name the image.
Status DecodeImage(std::span<const uint8_t> bytes, uint32_t channels, Image* image);

}  // namespace tern::data
