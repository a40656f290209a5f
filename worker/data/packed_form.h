// The header and the index entries of a packed data set, with the memory layout that they have in
// the file. packed.h describes the format.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::data {

// The numbers in a file are little-endian, and are copied between file and memory as they are.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed files are read as they lie");

inline constexpr char kPackedMagic[] = "TERNPACK";
inline constexpr uint32_t kPackedVersion = 1;
// The sizes of a PackedHeader and of a PackedEntry in bytes.
inline constexpr size_t kPackedHeaderBytes = 96, kPackedEntryBytes = 32;

// The index entry of one image: the place, size and digest of its bytes in the file, its label, and
// its height and width in pixels.
struct PackedEntry {
  uint64_t offset = 0;
  uint32_t bytes = 0, label = 0;
  uint32_t height = 0, width = 0;
  uint64_t digest = 0;
};

struct PackedHeader {
  char magic[8];
  uint32_t version, is_encoded;
  uint64_t count;
  uint32_t classes, channels;
  uint64_t index_begin, index_bytes, names_begin, names_bytes;
  uint64_t index_digest, names_digest;
  uint64_t file_bytes;
  uint64_t header_digest;
};
static_assert(sizeof(PackedHeader) == kPackedHeaderBytes &&
              sizeof(PackedEntry) == kPackedEntryBytes);

}  // namespace tern::data
