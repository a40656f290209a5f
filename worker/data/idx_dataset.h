// A split of MNIST or Fashion-MNIST: two IDX files, images and labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "worker/data/dataset.h"

namespace tern::data {

// Reads STEM-images-idx3-ubyte and STEM-labels-idx1-ubyte, or the same with .gz, and keeps the
// first `limit` images (0: all). kBadData: a file has the wrong number of dimensions, or the counts
// of images and labels differ.
Result<std::unique_ptr<Dataset>> ReadIdxDataset(const std::string& stem, uint64_t limit);

}  // namespace tern::data
