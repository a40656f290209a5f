#include "tests/worker/data/image_files.h"

#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tern::data {
namespace {

std::vector<uint8_t> InterleaveChannels(const Image& image) {
  std::vector<uint8_t> out(image.pixels.size());
  for (uint64_t i = 0; i < image.plane(); ++i) {
    for (uint32_t c = 0; c < image.channels; ++c)
      out[i * image.channels + c] = image.pixels[c * image.plane() + i];
  }
  return out;
}

void AppendToString(png_structp png, png_bytep bytes, png_size_t num_bytes) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(bytes), num_bytes);
}

struct PngShape {
  uint32_t height, width;
  int bits, color_type;
  bool interlaced;
};

std::string WritePng(const PngShape& shape, const std::vector<png_color>& palette,
                     std::vector<uint8_t> rows, size_t row_bytes) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, &AppendToString, nullptr);
  png_set_IHDR(png, info, shape.width, shape.height, shape.bits, shape.color_type,
               shape.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  std::vector<png_bytep> row_pointers;
  for (uint32_t y = 0; y < shape.height; ++y) row_pointers.push_back(rows.data() + y * row_bytes);
  png_set_rows(png, info, row_pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace

Image MakePicture(uint32_t channels, uint32_t height, uint32_t width, uint32_t seed) {
  Image image;
  image.Resize(channels, height, width);
  for (uint32_t c = 0; c < channels; ++c) {
    for (uint32_t y = 0; y < height; ++y) {
      for (uint32_t x = 0; x < width; ++x) {
        const double value = 128 + 60 * std::sin(0.21 * x + 0.7 * c + seed) +
                             60 * std::cos(0.13 * y + 0.05 * x - 0.4 * c + 2 * seed);
        image.pixels[(uint64_t{c} * height + y) * width + x] = static_cast<uint8_t>(value);
      }
    }
  }
  return image;
}

std::string EncodeJpeg(const Image& image, const JpegOptions& options) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long num_bytes = 0;
  jpeg_mem_dest(&info, &bytes, &num_bytes);
  info.image_width = image.width;
  info.image_height = image.height;
  info.input_components = options.cmyk ? 4 : static_cast<int>(image.channels);
  info.in_color_space = options.cmyk ? JCS_CMYK : image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> pixels = InterleaveChannels(image);
  if (options.cmyk) {  // the fourth ink, black, is unused: 255
    std::vector<uint8_t> cmyk_pixels;
    for (size_t i = 0; i < pixels.size(); i += 3) {
      cmyk_pixels.insert(cmyk_pixels.end(), {pixels[i], pixels[i + 1], pixels[i + 2], 255});
    }
    pixels = cmyk_pixels;
  }
  const size_t row_bytes = size_t{image.width} * static_cast<size_t>(info.input_components);
  while (info.next_scanline < info.image_height) {
    JSAMPROW one_row[1] = {pixels.data() + info.next_scanline * row_bytes};
    jpeg_write_scanlines(&info, one_row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string out(reinterpret_cast<char*>(bytes), num_bytes);
  std::free(bytes);
  return out;
}

std::string EncodePng(const Image& image, const PngOptions& options) {
  const bool is_gray = image.channels == 1;
  const int color_type = (is_gray ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB) |
                         (options.has_alpha ? PNG_COLOR_MASK_ALPHA : 0);
  std::vector<uint8_t> rows;
  const std::vector<uint8_t> pixels = InterleaveChannels(image);
  for (uint64_t i = 0; i < image.plane(); ++i) {
    std::vector<uint8_t> pixel(pixels.begin() + static_cast<long>(i * image.channels),
                               pixels.begin() + static_cast<long>((i + 1) * image.channels));
    if (options.has_alpha) pixel.push_back(static_cast<uint8_t>(i * 7));
    for (const uint8_t value : pixel) rows.insert(rows.end(), options.bits / 8, value);
  }
  return WritePng({image.height, image.width, options.bits, color_type, options.interlaced}, {},
                  rows, rows.size() / image.height);
}

std::string EncodePalettePng(uint32_t height, uint32_t width, int num_colors) {
  std::vector<png_color> palette;
  for (int i = 0; i < num_colors; ++i) {
    palette.push_back({static_cast<uint8_t>(20 * i), static_cast<uint8_t>(255 - 20 * i),
                       static_cast<uint8_t>(10 * i)});
  }
  std::vector<uint8_t> rows;
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x)
      rows.push_back(static_cast<uint8_t>((x + y) % static_cast<uint32_t>(num_colors)));
  }
  return WritePng({height, width, 8, PNG_COLOR_TYPE_PALETTE, false}, palette, rows, width);
}

int LargestDifference(const Image& a, const Image& b) {
  if (a.channels != b.channels || a.height != b.height || a.width != b.width) return 256;
  int largest_difference = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i)
    largest_difference =
        std::max(largest_difference, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  return largest_difference;
}

std::vector<uint8_t> AsVector(const std::string& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace tern::data
