// Reads the binary versions of CIFAR-10 and CIFAR-100. A file is a sequence of records. A record is
// a label of one byte (CIFAR-100: two labels, coarse and fine) and 3 x 32 x 32 bytes of pixels, one
// color plane after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset.h"

namespace tern::data {

struct CifarFormat {
  uint32_t classes;
  size_t label_bytes;  // Bytes of labels in a record; the last byte is the label that is used.
  // Names of the files, separated by spaces.
  const char* train_files;
  const char* test_files;
};
inline constexpr CifarFormat kCifar10 = {
    10, 1, "data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin",
    "test_batch.bin"};
inline constexpr CifarFormat kCifar100 = {100, 2, "train.bin", "test.bin"};

// Appends the records in `bytes`, the contents of one file, to *dataset. `name` is the file's name
// in error messages. kBadData if there are no records, if a record is incomplete, or if a label is
// too large.
Status ParseCifar(const std::vector<uint8_t>& bytes, const CifarFormat& format,
                  const std::string& name, MemoryDataset* dataset);

// Reads the training files (`is_training`) or the test files in the folder `dir`, but at most the
// first `limit` images; 0 means all.
Result<std::unique_ptr<Dataset>> ReadCifar(const std::string& dir, const CifarFormat& format,
                                           bool is_training, uint64_t limit);

}  // namespace tern::data
