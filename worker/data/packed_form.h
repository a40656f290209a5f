// The structures of a packed file as they are stored, for its reader and writer (packed.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "worker/data/packed.h"

namespace tern::data {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed files are read as they lie");

struct PackedHeader {
  char magic[8];
  uint32_t version, encoded;
  uint64_t count;
  uint32_t classes, channels;
  uint64_t index_begin, index_bytes, names_begin, names_bytes;
  uint64_t index_digest, names_digest;
  uint64_t file_bytes;
  uint64_t header_digest;
};
static_assert(sizeof(PackedHeader) == kPackedHeader && sizeof(PackedEntry) == kPackedEntry);

}  // namespace tern::data
