// Reads IDX files, the format of MNIST and Fashion-MNIST: an array of numbers with its dimensions,
// plain or compressed with gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::data {

// An array of unsigned bytes with 1 to 4 dimensions.
struct IdxArray {
  std::vector<uint32_t> dims;
  std::vector<uint8_t> values;
};

// Parses `bytes`, the decompressed contents of an IDX file. `name` is the file's name in error
// messages. Allocates the array only if the dimensions match the number of bytes. kBadData if they
// do not match, if the magic number is wrong, if the values are not unsigned bytes, if the number
// of dimensions is not 1 to 4, or if a dimension is 0.
Result<IdxArray> ParseIdx(const std::string& bytes, const std::string& name);

// Reads the file `path` or, if that does not exist, `path`.gz. If the contents begin with gzip's
// magic number, decompresses them, whatever the suffix, but no more bytes than the IDX header
// promises. kBadData for more than 4 GiB.
Result<IdxArray> ReadIdx(const std::string& path);

}  // namespace tern::data
