// A folder of images: DIR/train/CLASS/FILE and DIR/test/CLASS/FILE (or DIR/val/CLASS/FILE), where a
// FILE ends in .jpg, .jpeg or .png.
//
// Classes are numbered in the order of their names; images are ordered by (class, name), byte by
// byte: the same on every machine. Other files, and names that begin with a dot, are ignored.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "worker/data/dataset.h"

namespace tern::data {

// Scans one split: lists it, and reads the header of each image with data.threads threads.
// kBadData: no such folder, no classes, other classes than the other split's, a class without
// images or with subfolders, more damaged images than data.max_corrupt.
Result<std::unique_ptr<Dataset>> ReadFolder(const pb::Data& data, bool train, uint64_t limit,
                                            const ReadOptions& options);

}  // namespace tern::data
