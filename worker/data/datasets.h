// Reads a data set in the format that the job's data.format names.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "worker/data/dataset.h"

namespace tern::data {

// Reads the training or test set of the job, but at most its first data.train_limit or
// data.test_limit images (0: all). For a folder of images, reads only the headers of the images,
// and leaves out up to data.max_corrupt damaged ones. The message of kBadData names the file or the
// folder.
Result<std::unique_ptr<Dataset>> ReadDataset(const pb::Data& data, Split split,
                                             const ReadOptions& options = {});

}  // namespace tern::data
