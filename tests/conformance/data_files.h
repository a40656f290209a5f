// One set of small images, written in every format that data.format may name: for the suite of
// data formats (data_conformance.cc).
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

// `count` different images with labels 0, 1 and 2 in rising order, as a folder would order them.
Images SomeImages(size_t count, bool gray, uint32_t seed = 0);

// A format, and in which of its forms its files are written.
struct FormatCase {
  std::string name;  // letters and digits
  pb::Data::Format format = pb::Data::idx;
  bool second_form = false;  // idx: gzip; packed: pixels
  // Properties of the format.
  bool gray = false;                        // one channel only
  bool one_file_per_image = false;          // removing a file removes an image
  std::optional<uint32_t> too_large_label;  // the smallest invalid label, if any
};
// Every value of data.format, in each form.
std::vector<FormatCase> AllFormats();

// Writes one split into the folder, as `format` wants it; returns the paths of its files, or of
// the images' folder if there are none.
std::vector<std::string> WriteSplit(const FormatCase& format, Split split, const Images& images,
                                    const TempFolder& folder);

std::string BytesOfFile(const std::string& path);

}  // namespace tern::data
