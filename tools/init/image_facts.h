// What `tern init` sees of a user's images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/data.pb.h"
#include "worker/data/dataset.h"

namespace tern::tools {

// At most so many training images are decoded, evenly over the set.
inline constexpr uint64_t kMaxDecodedImages = 1000;

struct ImageFacts {
  uint32_t channels = 0, classes = 0;
  uint64_t train_count = 0, test_count = 0;
  uint64_t decoded_count = 0;           // of the training images
  uint64_t damaged_count = 0;           // of the set that has more of them, as far as it was read
  uint32_t shorter_side = 0;            // in pixels: the median of the decoded images
  data::Size common_size = {};          // of all training images; 0 if sizes differ
  std::vector<double> mean, deviation;  // by channel, of the decoded images' values from 0 to 1
};

// Says where images are and in which format, by the names of the files in `path`, or beside it if
// it is a file. kBadData if there are no images in a known format.
Result<pb::Data> FindImages(const std::string& path);

// Reads the training and the test set. Prints warnings to stderr, and leaves out damaged images.
// kBadData as ReadDataset says.
Result<ImageFacts> LookAtImages(const pb::Data& images);

}  // namespace tern::tools
