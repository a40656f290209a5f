// Reads the training or test set of MNIST or Fashion-MNIST: two IDX files, one with the images and
// one with the labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "worker/data/dataset.h"

namespace tern::data {

// Reads STEM-images-idx3-ubyte and STEM-labels-idx1-ubyte, or the same names with .gz, where STEM
// is the parameter `stem`; keeps the first `limit` images (0: all). kBadData if a file has the
// wrong number of dimensions, or if the numbers of images and labels differ.
Result<std::unique_ptr<Dataset>> ReadIdxDataset(const std::string& stem, uint64_t limit);

}  // namespace tern::data
