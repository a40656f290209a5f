#include "worker/data/encoded.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "common/base/text.h"
#include "worker/data/jpeg.h"
#include "worker/data/png.h"

namespace tern::data {
namespace {

Status BadDataError(const std::string& what) { return Status(Code::kBadData, what); }

constexpr std::array<uint8_t, 8> kPngSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr uint64_t kMaxStrayBytes = 4096;  // Stray bytes allowed between the segments of a JPEG.
// Bytes of a PNG up to the image's size: signature, length and name of the first chunk, width,
// height.
constexpr size_t kPngHeaderBytes = 24;

bool IsJpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8;
}

bool IsPng(std::span<const uint8_t> bytes) {
  return bytes.size() >= kPngSignature.size() &&
         std::equal(kPngSignature.begin(), kPngSignature.end(), bytes.begin());
}

Status UnknownFormat(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return BadDataError("empty (0 bytes); expected a JPEG or PNG image");
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return BadDataError(Cat("neither JPEG nor PNG: it begins with \"",
                          Printable({text, std::min<size_t>(bytes.size(), 8)}), "\""));
}

Result<ImageHeader> CheckSides(uint32_t height, uint32_t width) {
  if (height == 0 || width == 0)
    return BadDataError(Cat("damaged: its header states a size of ", width, " x ", height));
  if (uint64_t{height} * width > kMaxPixels) {
    return BadDataError(Cat("its header states a size of ", width, " x ", height,
                            ", more than the ", kMaxPixels, " pixels allowed"));
  }
  return ImageHeader{height, width};
}

uint32_t BigEndianWord(std::span<const uint8_t> bytes, size_t offset) {
  return uint32_t{bytes[offset]} << 24 | uint32_t{bytes[offset + 1]} << 16 |
         uint32_t{bytes[offset + 2]} << 8 | bytes[offset + 3];
}

Result<ImageHeader> PngHeader(std::span<const uint8_t> bytes) {
  if (bytes.size() < kPngHeaderBytes)
    return BadDataError("truncated: it ends in the header of the PNG");
  if (std::memcmp(bytes.data() + 12, "IHDR", 4) != 0)
    return BadDataError("damaged: the PNG does not begin with its header chunk");
  return CheckSides(BigEndianWord(bytes, 20), BigEndianWord(bytes, 16));
}

// Whether a JPEG marker begins a frame header, which contains the image's size: one of SOF0 to
// SOF15, whose range of codes also contains the other markers DHT, JPG and DAC.
bool BeginsFrame(uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Reads the size of a JPEG of `size` bytes: skips its segments up to the first frame header.
Result<ImageHeader> JpegHeader(const ReadAt& read, uint64_t size) {
  uint64_t offset = 2, num_stray = 0;
  // The bytes: 0xff, marker, length (2 bytes), precision, height (2 bytes), width (2 bytes).
  std::array<uint8_t, 9> head;
  while (offset + 4 <= size) {
    const size_t num_read = read(offset, head);
    if (num_read < 4) break;
    const uint8_t marker = head[1];
    if (head[0] != 0xff || marker == 0) {  // A stray byte; decoders skip it too.
      if (++num_stray > kMaxStrayBytes)
        return BadDataError("damaged: the JPEG has no marker where one is expected");
      ++offset;
      continue;
    }
    if (marker == 0xff) {  // A fill byte before the marker.
      ++offset;
      continue;
    }
    const bool has_no_segment = marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
    if (has_no_segment) {
      offset += 2;
      continue;
    }
    if (marker == 0xd9 || marker == 0xda) return BadDataError("damaged: the JPEG states no size");
    const uint32_t length = uint32_t{head[2]} << 8 | head[3];
    if (length < 2) return BadDataError("damaged: a segment of the JPEG has an invalid length");
    if (BeginsFrame(marker)) {
      if (num_read < head.size()) break;
      return CheckSides(uint32_t{head[5]} << 8 | head[6], uint32_t{head[7]} << 8 | head[8]);
    }
    offset += 2 + uint64_t{length};
  }
  return BadDataError(Cat("truncated: ", size, " bytes that do not contain the size of the JPEG"));
}

void ToGray(Image* image) {
  const uint64_t plane = image->plane();
  uint8_t* r = image->pixels.data();
  const uint8_t *g = r + plane, *b = g + plane;
  for (uint64_t i = 0; i < plane; ++i)
    r[i] = static_cast<uint8_t>((299u * r[i] + 587u * g[i] + 114u * b[i] + 500u) / 1000u);
  image->Resize(1, image->height, image->width);
}

}  // namespace

Result<ImageHeader> ReadImageHeader(const ReadAt& read, uint64_t size) {
  std::array<uint8_t, kPngHeaderBytes> first;
  const std::span<const uint8_t> bytes(first.data(), read(0, first));
  if (IsPng(bytes)) return PngHeader(bytes);
  if (IsJpeg(bytes)) return JpegHeader(read, size);
  return UnknownFormat(bytes);
}

Status DecodeImage(std::span<const uint8_t> bytes, uint32_t channels, Image* image) {
  if (!IsJpeg(bytes) && !IsPng(bytes)) return UnknownFormat(bytes);
  const Status decoded = IsJpeg(bytes) ? DecodeJpeg(bytes, image) : DecodePng(bytes, image);
  if (!decoded.ok()) return decoded;
  if (channels == 1 && image->channels == 3) ToGray(image);
  if (channels == 3 && image->channels == 1) {
    image->Resize(3, image->height, image->width);
    const auto begin = image->pixels.begin();
    const auto plane = static_cast<std::ptrdiff_t>(image->plane());
    std::copy(begin, begin + plane, begin + plane);
    std::copy(begin, begin + plane, begin + 2 * plane);
  }
  return Ok();
}

}  // namespace tern::data
