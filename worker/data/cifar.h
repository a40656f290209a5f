// CIFAR-10 and CIFAR-100 in their binary form: records of one label (cifar100: a coarse and a fine
// label) and 3 x 32 x 32 pixels, plane by plane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/data/dataset.h"

namespace tern::data {

struct CifarForm {
  uint32_t classes;
  size_t label_bytes;  // if there are two, the last one is used
  const char* train_files;
  const char* test_files;
};
inline constexpr CifarForm kCifar10 = {
    10, 1, "data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin",
    "test_batch.bin"};
inline constexpr CifarForm kCifar100 = {100, 2, "train.bin", "test.bin"};

// Appends the records of one file to the set; `name` is used in messages. kBadData: no records, an
// incomplete record, a label that is too large.
Status ParseCifar(const std::vector<uint8_t>& bytes, const CifarForm& form, const std::string& name,
                  MemoryDataset* dataset);

// Reads the first `limit` images (0: all) of the files of one split in `dir`.
Result<std::unique_ptr<Dataset>> ReadCifar(const std::string& dir, const CifarForm& form,
                                           bool train, uint64_t limit);

}  // namespace tern::data
