// IDX files (MNIST, Fashion-MNIST), plain or gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::data {

// An array of unsigned bytes with its dimensions (1 to 4 of them).
struct IdxArray {
  std::vector<uint32_t> dims;
  std::vector<uint8_t> values;
};

// Parses the (decompressed) bytes of an IDX file. `name` is used in messages. Never allocates more
// than `bytes` holds. kBadData, with a sentence for each: another magic or type, no dimensions or a
// dimension of zero, fewer or more bytes than the dimensions need.
Result<IdxArray> ParseIdx(const std::string& bytes, const std::string& name);

// Reads `path`, or `path`.gz if only that exists. Decompresses content that begins like gzip,
// whatever the file's name, to at most 4 GiB.
Result<IdxArray> ReadIdx(const std::string& path);

}  // namespace tern::data
