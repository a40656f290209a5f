// What a worker tells of its images, by which shard 0 finds that workers have different data.
#pragma once

#include <cstdint>
#include <string>

#include "worker/data/dataset.h"

namespace tern::data {

struct Summary {
  // Equal if and only if (but for collisions of a 64-bit hash) both sets have as many images, the
  // same class names, and images of the same labels and sizes in the same order. Does not read the
  // images, so their pixels may differ.
  uint64_t digest = 0;
  // For people: "60,000 training and 10,000 test images in 10 classes (cat, dog, ...)". Printable
  // ASCII, at most kMaxTextBytes long.
  std::string text;

  static constexpr size_t kMaxTextBytes = 256;
};

// `training` and `test`: the sets of a job, as ReadDataset returns them.
Summary Summarize(const Dataset& training, const Dataset& test);

}  // namespace tern::data
