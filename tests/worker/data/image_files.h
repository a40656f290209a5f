// Small JPEG and PNG files for the tests of worker/data, written by libjpeg and libpng.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/data/image.h"

namespace tern::data {

// A picture that every flip or shift changes: smooth, different in each channel and for each
// `seed`.
Image MakePicture(uint32_t channels, uint32_t height, uint32_t width, uint32_t seed = 0);

struct JpegOptions {
  int quality = 90;
  bool progressive = false;
  bool cmyk = false;  // as Adobe's programs write it: 255 is no ink, and black is unused
};
std::string EncodeJpeg(const Image& image, const JpegOptions& options = {});

// A PNG of 8 or 16 bits per value, with or without an alpha channel, interlaced or not. For 16
// bits, the byte of each value is written twice.
struct PngOptions {
  int bits = 8;
  bool has_alpha = false, interlaced = false;
};
std::string EncodePng(const Image& image, const PngOptions& options = {});
// Pixel x, y has color (x + y) % num_colors of the palette; color i is (20 i, 255 - 20 i, 10 i).
std::string EncodePalettePng(uint32_t height, uint32_t width, int num_colors);

// The largest difference between two images of the same size; 256 if the sizes differ.
int LargestDifference(const Image& a, const Image& b);

std::vector<uint8_t> AsVector(const std::string& bytes);

}  // namespace tern::data
