// The formats that data.format may name.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "worker/data/dataset.h"

namespace tern::data {

// Reads one split of the job's data, or its first train_limit or test_limit images if that is less.
// Of a folder it reads the headers of all images, and leaves out up to max_corrupt damaged ones.
// kBadData names the file, what was seen and what was expected.
Result<std::unique_ptr<Dataset>> ReadDataset(const pb::Data& data, Split split,
                                             const ReadOptions& options = {});

}  // namespace tern::data
