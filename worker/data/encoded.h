// Images as files hold them: JPEG or PNG, told apart by their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/base/status.h"
#include "worker/data/image.h"

namespace tern::data {

// Reads up to into.size() bytes from `offset` on; how many there were.
using ReadAt = std::function<size_t(uint64_t offset, std::span<uint8_t> into)>;

struct ImageHeader {
  uint32_t height = 0, width = 0;
};

// The size that the header of a file of `size` bytes tells, from as few bytes as hold it. kBadData,
// a sentence without the file's name: empty, neither JPEG nor PNG, no size in it, a side of zero,
// more than kMaxPixels.
Result<ImageHeader> ReadImageHeader(const ReadAt& read, uint64_t size);

// Decodes a JPEG or PNG to `channels` planes: 1 (luma: 0.299 R + 0.587 G + 0.114 B) or 3 (RGB); all
// else that a file may hold (gray, palette, 16 bits, CMYK) is converted, alpha is left out. The
// same bytes give the same pixels, whatever the machine. kBadData, a sentence without a name:
// damaged, truncated, larger than kMaxPixels. Memory is bounded by the size of the image, which is
// bounded by what so many bytes can hold.
Status DecodeImage(std::span<const uint8_t> bytes, uint32_t channels, Image* image);

}  // namespace tern::data
