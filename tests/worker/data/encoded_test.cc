#include "worker/data/encoded.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "tests/limited_memory.h"
#include "tests/worker/data/image_files.h"
#include "worker/data/jpeg.h"

namespace tern::data {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

Image DecodeOrFail(const std::string& bytes, uint32_t channels) {
  Image image;
  const Status decode_status = DecodeImage(AsVector(bytes), channels, &image);
  EXPECT_TRUE(decode_status.ok()) << decode_status.message();
  return image;
}

Status DecodeStatusOf(const std::string& bytes) {
  Image image;
  return DecodeImage(AsVector(bytes), 3, &image);
}

Result<ImageHeader> HeaderOf(const std::string& bytes) {
  return ReadImageHeader(
      [&bytes](uint64_t offset, std::span<uint8_t> buffer) {
        if (offset >= bytes.size()) return size_t{0};
        const size_t copied_bytes = std::min(buffer.size(), bytes.size() - offset);
        std::memcpy(buffer.data(), bytes.data() + offset, copied_bytes);
        return copied_bytes;
      },
      bytes.size());
}

Image ToGray(const Image& rgb) {
  Image gray_image;
  gray_image.Resize(1, rgb.height, rgb.width);
  for (uint64_t i = 0; i < rgb.plane(); ++i) {
    const auto color_at = [&](uint64_t c) { return rgb.pixels[c * rgb.plane() + i]; };
    gray_image.pixels[i] =
        static_cast<uint8_t>(0.299 * color_at(0) + 0.587 * color_at(1) + 0.114 * color_at(2) + 0.5);
  }
  return gray_image;
}

const std::vector<std::string>& EncodedFiles() {
  static const std::vector<std::string> files = {
      EncodeJpeg(MakePicture(3, 33, 47)), EncodeJpeg(MakePicture(3, 33, 47), {.progressive = true}),
      EncodeJpeg(MakePicture(1, 33, 47)), EncodePng(MakePicture(3, 33, 47)),
      EncodePng(MakePicture(1, 33, 47), {.has_alpha = true, .interlaced = true})};
  return files;
}

TEST(Jpeg, DecodesWithinItsQuality) {
  for (const bool progressive : {false, true}) {
    const Image picture = MakePicture(3, 33, 47);
    const std::string bytes = EncodeJpeg(picture, {.quality = 98, .progressive = progressive});
    EXPECT_LE(LargestDifference(DecodeOrFail(bytes, 3), picture), 12);
  }
  const Image gray_image = MakePicture(1, 17, 5);
  EXPECT_LE(
      LargestDifference(DecodeOrFail(EncodeJpeg(gray_image, {.quality = 100}), 1), gray_image), 3);
}

// At quality 100, JPEG stores an image of one gray value exactly: every version of the library must
// return exactly this value.
TEST(Jpeg, OneColorStaysThatColor) {
  Image one_color_image;
  one_color_image.Resize(3, 8, 8);
  std::fill(one_color_image.pixels.begin(), one_color_image.pixels.end(), 77);
  EXPECT_EQ(DecodeOrFail(EncodeJpeg(one_color_image, {.quality = 100}), 3).pixels,
            one_color_image.pixels);
}

TEST(Jpeg, ConvertsCmykToRgb) {
  const Image picture = MakePicture(3, 24, 24);
  EXPECT_LE(LargestDifference(DecodeOrFail(EncodeJpeg(picture, {.quality = 98, .cmyk = true}), 3),
                              picture),
            12);
}

TEST(Jpeg, RefusesTooManyScans) {
  const std::string bytes = EncodeJpeg(MakePicture(1, 16, 16), {.progressive = true});
  size_t scan_begin = bytes.find("\xff\xda");
  const size_t next_scan_begin = bytes.find("\xff\xda", scan_begin + 2);
  ASSERT_NE(next_scan_begin, std::string::npos);
  std::string many_scans = bytes.substr(0, scan_begin);
  for (int i = 0; i <= kMaxJpegScans; ++i)
    many_scans += bytes.substr(scan_begin, next_scan_begin - scan_begin);
  many_scans += bytes.substr(next_scan_begin);
  EXPECT_THAT(DecodeStatusOf(many_scans).message(), HasSubstr("damaged JPEG"));
}

TEST(Png, DecodesExactly) {
  for (const uint32_t channels : {1u, 3u}) {
    const Image picture = MakePicture(channels, 19, 23);
    for (const int bits : {8, 16}) {
      for (const bool has_alpha : {false, true}) {
        for (const bool interlaced : {false, true}) {
          const std::string bytes = EncodePng(picture, {bits, has_alpha, interlaced});
          EXPECT_EQ(LargestDifference(DecodeOrFail(bytes, channels), picture), 0)
              << channels << " channels, " << bits << " bits, " << has_alpha << interlaced;
        }
      }
    }
  }
}

TEST(Png, ExpandsAPalette) {
  const Image image = DecodeOrFail(EncodePalettePng(5, 7, 9), 3);
  ASSERT_EQ(image.channels, 3u);
  for (uint32_t y = 0; y < 5; ++y) {
    for (uint32_t x = 0; x < 7; ++x) {
      const int color_index = static_cast<int>((x + y) % 9);
      EXPECT_EQ(image.pixels[y * 7 + x], 20 * color_index);
      EXPECT_EQ(image.pixels[35 + y * 7 + x], 255 - 20 * color_index);
      EXPECT_EQ(image.pixels[70 + y * 7 + x], 10 * color_index);
    }
  }
}

std::string BigEndian(uint64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// A chunk of a PNG file. `type` has 4 letters.
std::string PngChunk(const std::string& type, const std::string& data) {
  const std::string type_and_data = type + data;
  const uint64_t crc = crc32(0, reinterpret_cast<const Bytef*>(type_and_data.data()),
                             static_cast<uInt>(type_and_data.size()));
  return BigEndian(data.size()) + type_and_data + BigEndian(crc);
}

std::string Deflate(std::string bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit(&stream, 6), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Chunks without pixels are not unpacked: neither their number nor what they unpack to costs
// memory.
TEST(Png, SkipsPackedChunksWithoutPixels) {
  constexpr size_t kSizeOfHeaderChunk = 25, kSizeOfSignature = 8;
  const Image picture = MakePicture(3, 33, 47);
  const std::string deflated = Deflate(std::string(7 << 20, '\0'));
  const std::string zero(1, '\0');
  const std::string text = "k" + zero + "\1" + zero + zero + zero + deflated;
  std::string chunks = PngChunk("iCCP", "p" + zero + zero + deflated);
  for (int i = 0; i < 60; ++i)
    chunks += PngChunk("iTXt", text) + PngChunk("zTXt", "k" + zero + zero + deflated);
  for (int i = 0; i < 2000; ++i) chunks += PngChunk("tEXt", "k" + zero + std::string(10'000, 'x'));
  chunks += PngChunk("abCd", std::string(7 << 20, 'x'));
  std::string bytes = EncodePng(picture);
  bytes.insert(kSizeOfSignature + kSizeOfHeaderChunk, chunks);
  const std::vector<uint8_t> file = AsVector(bytes);
  Image image;
  TERN_EXPECT_WITHIN_MEMORY(
      8 << 20, DecodeImage(file, 3, &image).ok() && LargestDifference(image, picture) == 0);
}

TEST(DecodeImage, ConvertsBetweenGrayAndRgb) {
  const Image color_image = MakePicture(3, 9, 11), gray_image = MakePicture(1, 9, 11);
  EXPECT_LE(LargestDifference(DecodeOrFail(EncodePng(color_image), 1), ToGray(color_image)), 1);
  const Image expanded_image = DecodeOrFail(EncodePng(gray_image), 3);
  ASSERT_EQ(expanded_image.pixels.size(), 3 * gray_image.pixels.size());
  for (size_t i = 0; i < expanded_image.pixels.size(); ++i)
    ASSERT_EQ(expanded_image.pixels[i], gray_image.pixels[i % gray_image.pixels.size()]);
}

TEST(ImageHeader, ReadsTheSize) {
  for (const std::string& bytes : EncodedFiles()) {
    const auto header = HeaderOf(bytes);
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->height, 33u);
    EXPECT_EQ(header->width, 47u);
  }
}

// As in a camera's file, the header with the size comes after long segments of metadata.
TEST(ImageHeader, IsFoundBehindLongSegments) {
  const std::string jpeg = EncodeJpeg(MakePicture(3, 33, 47));
  std::string bytes = jpeg.substr(0, 2);
  for (int i = 0; i < 40; ++i) bytes += "\xff\xe1\xff\xff" + std::string(65533, 'x');
  bytes += "\xff\xff" + jpeg.substr(2);
  const auto header = HeaderOf(bytes);
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->width, 47u);
  EXPECT_EQ(DecodeStatusOf(bytes).message(), "");
}

TEST(DecodeImage, RefusesEveryTruncation) {
  for (const std::string& file : EncodedFiles()) {
    for (size_t length = 0; length < file.size(); length += length < 700 ? 1 : 13) {
      const std::string truncated = file.substr(0, length);
      // The last marker of a JPEG marks its end; the whole picture is decodable without it.
      const bool is_jpeg = file[1] == '\xd8';
      if (is_jpeg && length + 2 >= file.size()) continue;
      const Status decode_status = DecodeStatusOf(truncated);
      ASSERT_EQ(decode_status.code(), Code::kBadData) << length << " of " << file.size();
      (void)HeaderOf(truncated);
    }
  }
}

TEST(DecodeImage, SurvivesEveryChangedByte) {
  for (const std::string& file : EncodedFiles()) {
    for (size_t position = 0; position < file.size(); position += 3) {
      for (const char flipped_bits : {'\xff', '\x01', '\x80'}) {
        std::string bytes = file;
        bytes[position] = static_cast<char>(bytes[position] ^ flipped_bits);
        Image image;
        if (DecodeImage(AsVector(bytes), 3, &image).ok()) {
          ASSERT_EQ(image.pixels.size(), 3 * image.plane());
        }
        (void)HeaderOf(bytes);
      }
    }
  }
}

TEST(DecodeImage, RefusesOtherFiles) {
  EXPECT_THAT(DecodeStatusOf("").message(), HasSubstr("empty (0 bytes)"));
  EXPECT_THAT(HeaderOf("").status().message(), HasSubstr("empty (0 bytes)"));
  for (const std::string text : {"<html>not here</html>", "GIF89a......", "\xff", "\x89PN"}) {
    EXPECT_THAT(DecodeStatusOf(text).message(), HasSubstr("neither JPEG nor PNG"));
    EXPECT_THAT(HeaderOf(text).status().message(), HasSubstr("neither JPEG nor PNG"));
  }
}

TEST(DecodeImage, RefusesGiantSizesBeforeAllocating) {
  std::string png = EncodePng(MakePicture(3, 33, 47));
  png.replace(16, 8, std::string("\x00\x7f\xff\xff\x00\x7f\xff\xff", 8));
  EXPECT_THAT(HeaderOf(png).status().message(), HasSubstr("more than the"));
  EXPECT_THAT(DecodeStatusOf(png).message(), HasSubstr("damaged PNG"));
  std::string jpeg = EncodeJpeg(MakePicture(3, 33, 47));
  const size_t frame_begin = jpeg.find("\xff\xc0");
  jpeg.replace(frame_begin + 5, 4, "\xff\x00\xff\x00", 4);
  EXPECT_THAT(HeaderOf(jpeg).status().message(), HasSubstr("more than the"));
  EXPECT_THAT(DecodeStatusOf(jpeg).message(), HasSubstr("promises 65280 x 65280 pixels"));
  // This size is allowed, but too large for so few bytes.
  jpeg.replace(frame_begin + 5, 4, std::string("\x1f\x00\x1f\x00", 4));
  EXPECT_THAT(DecodeStatusOf(jpeg).message(), HasSubstr("promises 7936 x 7936 pixels"));
  jpeg.replace(frame_begin + 5, 4, std::string("\x00\x00\x00\x10", 4));
  EXPECT_THAT(HeaderOf(jpeg).status().message(), HasSubstr("a size of 16 x 0"));
  EXPECT_FALSE(DecodeStatusOf(jpeg).ok());
}

}  // namespace
}  // namespace tern::data
