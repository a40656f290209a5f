// A dataset in memory: images of uint8 and labels. Read and checked once; constant afterwards, so
// any thread may read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::data {

struct Dataset {
  uint32_t channels = 0, height = 0, width = 0;
  uint32_t classes = 0;         // 1 + the largest label of the file, whatever the limit
  std::vector<uint8_t> pixels;  // [count, C, H, W]
  std::vector<uint8_t> labels;  // [count]
  uint64_t count() const { return labels.size(); }
  uint64_t image_size() const { return uint64_t{channels} * height * width; }
};

enum class Split { kTrain, kTest };

// Reads one split of the job's data, or its first train_limit or test_limit images if that is
// fewer. kBadData names the file, what was seen and what was expected.
Result<Dataset> ReadDataset(const pb::Data& data, Split split);

}  // namespace tern::data
