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
constexpr uint64_t kMaxStrayBytes = 4096;  // The most stray bytes before a JPEG's frame header.
// How many bytes a PNG has up to the end of the image's size: the signature, the length and name of
// the first chunk, the width, and the height.
constexpr size_t kPngHeaderBytes = 24;

bool IsJpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8;
}

bool IsPng(std::span<const uint8_t> bytes) {
  return bytes.size() >= kPngSignature.size() &&
         std::equal(kPngSignature.begin(), kPngSignature.end(), bytes.begin());
}

Status UnknownFormatError(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return BadDataError("empty (0 bytes); expected a JPEG or PNG image");
  const auto* first_characters = reinterpret_cast<const char*>(bytes.data());
  return BadDataError(Cat("neither JPEG nor PNG: it begins with \"",
                          Printable({first_characters, std::min<size_t>(bytes.size(), 8)}), "\""));
}

Result<ImageHeader> CheckImageSize(uint32_t height, uint32_t width) {
  if (height == 0 || width == 0)
    return BadDataError(Cat("damaged: its header states a size of ", width, " x ", height));
  if (uint64_t{height} * width > kMaxPixels) {
    return BadDataError(Cat("its header states a size of ", width, " x ", height,
                            ", more than the ", kMaxPixels, " pixels allowed"));
  }
  return ImageHeader{height, width};
}

uint32_t ReadBigEndianWord(std::span<const uint8_t> bytes, size_t offset) {
  return uint32_t{bytes[offset]} << 24 | uint32_t{bytes[offset + 1]} << 16 |
         uint32_t{bytes[offset + 2]} << 8 | bytes[offset + 3];
}

Result<ImageHeader> ReadPngHeader(std::span<const uint8_t> bytes) {
  if (bytes.size() < kPngHeaderBytes)
    return BadDataError("truncated: it ends in the header of the PNG");
  if (std::memcmp(bytes.data() + 12, "IHDR", 4) != 0)
    return BadDataError("damaged: the PNG does not begin with its header chunk");
  return CheckImageSize(ReadBigEndianWord(bytes, 20), ReadBigEndianWord(bytes, 16));
}

// Whether a JPEG marker begins a frame header, which contains the image's size: one of SOF0 to
// SOF15, whose range of codes also contains the other markers DHT, JPG and DAC.
bool BeginsFrame(uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Reads the image's size from a JPEG file of `size` bytes. Skips segments up to the first frame
// header.
Result<ImageHeader> ReadJpegHeader(const ReadFunction& read, uint64_t size) {
  uint64_t offset = 2, num_stray = 0;
  // The bytes of a frame header: 0xff, marker, length (2 bytes), precision, height (2), width (2).
  std::array<uint8_t, 9> segment_head;
  while (offset + 4 <= size) {
    const size_t num_read = read(offset, segment_head);
    if (num_read < 4) break;
    const uint8_t marker = segment_head[1];
    if (segment_head[0] != 0xff || marker == 0) {  // A stray byte; decoders skip it too.
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
    const uint32_t segment_length = uint32_t{segment_head[2]} << 8 | segment_head[3];
    if (segment_length < 2)
      return BadDataError("damaged: a segment of the JPEG has an invalid length");
    if (BeginsFrame(marker)) {
      if (num_read < segment_head.size()) break;
      return CheckImageSize(uint32_t{segment_head[5]} << 8 | segment_head[6],
                            uint32_t{segment_head[7]} << 8 | segment_head[8]);
    }
    offset += 2 + uint64_t{segment_length};
  }
  return BadDataError(Cat("truncated: ", size, " bytes that do not contain the size of the JPEG"));
}

void ConvertToGray(Image* image) {
  const uint64_t plane_size = image->plane();
  uint8_t* r = image->pixels.data();
  const uint8_t *g = r + plane_size, *b = g + plane_size;
  for (uint64_t i = 0; i < plane_size; ++i)
    r[i] = static_cast<uint8_t>((299u * r[i] + 587u * g[i] + 114u * b[i] + 500u) / 1000u);
  image->Resize(1, image->height, image->width);
}

}  // namespace

Result<ImageHeader> ReadImageHeader(const ReadFunction& read, uint64_t size) {
  std::array<uint8_t, kPngHeaderBytes> buffer;
  const std::span<const uint8_t> first_bytes(buffer.data(), read(0, buffer));
  if (IsPng(first_bytes)) return ReadPngHeader(first_bytes);
  if (IsJpeg(first_bytes)) return ReadJpegHeader(read, size);
  return UnknownFormatError(first_bytes);
}

Status DecodeImage(std::span<const uint8_t> bytes, uint32_t channels, Image* image) {
  if (!IsJpeg(bytes) && !IsPng(bytes)) return UnknownFormatError(bytes);
  const Status decode_status = IsJpeg(bytes) ? DecodeJpeg(bytes, image) : DecodePng(bytes, image);
  if (!decode_status.ok()) return decode_status;
  if (channels == 1 && image->channels == 3) ConvertToGray(image);
  if (channels == 3 && image->channels == 1) {
    image->Resize(3, image->height, image->width);
    const auto first_plane = image->pixels.begin();
    const auto plane_size = static_cast<std::ptrdiff_t>(image->plane());
    std::copy(first_plane, first_plane + plane_size, first_plane + plane_size);
    std::copy(first_plane, first_plane + plane_size, first_plane + 2 * plane_size);
  }
  return Ok();
}

}  // namespace tern::data
