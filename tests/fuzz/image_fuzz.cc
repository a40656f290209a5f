// Fuzzes the decoders of image files (PNG, JPEG), and checks that header and image agree on the
// size.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "worker/data/encoded.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto header = tern::data::ReadImageHeader(
      [data, size](uint64_t offset, std::span<uint8_t> into) {
        if (offset >= size) return size_t{0};
        const size_t num_read = std::min<size_t>(into.size(), size - offset);
        std::memcpy(into.data(), data + offset, num_read);
        return num_read;
      },
      size);
  tern::data::Image image;
  for (const uint32_t channels : {1u, 3u}) {
    if (!tern::data::DecodeImage({data, size}, channels, &image).ok()) continue;
    if (header.ok() && (header->height != image.height || header->width != image.width))
      __builtin_trap();
    if (image.channels != channels || image.pixels.size() != channels * image.plane())
      __builtin_trap();
  }
  return 0;
}
