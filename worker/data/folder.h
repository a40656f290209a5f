// Data sets that are folders of images: DIR/train/CLASS/FILE and DIR/test/CLASS/FILE (or
// DIR/val/CLASS/FILE), where FILE ends in .jpg, .jpeg or .png, in upper or lower case.
//
// Classes are numbered in the order of their names, and images are ordered by class and then by
// file name. Names are compared byte by byte, so the order is the same on every machine. Files with
// other endings, and names that begin with a dot, are ignored.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "worker/data/dataset.h"

namespace tern::data {

// Lists the training images (`is_training`) or the test images, at most `limit` of them (0: all),
// and reads the header of each with data.threads threads. kBadData if the folder is missing or has
// no classes, if the training and test set have different classes, if a class has no images or has
// subfolders, or if more than data.max_corrupt images are damaged.
Result<std::unique_ptr<Dataset>> ReadFolder(const pb::Data& data, bool is_training, uint64_t limit,
                                            const ReadOptions& options);

}  // namespace tern::data
