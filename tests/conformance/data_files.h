// Writes the same small images in every data format that the job key data.format allows, for the
// tests of all formats in data_conformance.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/worker/data/idx_files.h"
#include "worker/data/datasets.h"

namespace tern::data {

struct LabelledImage {
  uint32_t label = 0;
  Image image;  // [3, 32, 32]; all channels are equal if the set is gray
};
using Images = std::vector<LabelledImage>;

// Makes `count` different images. Their labels 0, 1 and 2 are ascending, because the format
// `folder` orders images by label.
Images SomeImages(size_t count, bool is_gray, uint32_t seed = 0);

// A data format and, if the format has two variants, one of them.
struct FormatCase {
  std::string name;  // Only letters and digits.
  pb::Data::Format format = pb::Data::idx;
  // The second variant of idx compresses its files with gzip; that of packed stores decoded pixels.
  bool is_second_variant = false;
  bool is_gray = false;  // Whether images have one channel instead of three.
  bool has_one_file_per_image = false;
  std::optional<uint32_t> too_large_label;  // The smallest invalid label, if there is one.
};
// Returns a case for every value of data.format, in each of its variants.
std::vector<FormatCase> AllFormats();

// Writes the images as the training or test set into the folder, in this format. Returns the paths
// of the files that it wrote. If the format is `folder` and there are no images, returns the path
// of the empty folder.
std::vector<std::string> WriteSplit(const FormatCase& format, Split split, const Images& images,
                                    const TempFolder& folder);

std::string BytesOfFile(const std::string& path);

}  // namespace tern::data
