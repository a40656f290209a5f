// Decompression of gzip (RFC 1952) in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tern::data {

// Whether `bytes` begin with gzip's magic number (1f 8b).
bool IsGzip(std::string_view bytes);

// Decompresses all gzip members in `bytes` and returns their concatenated contents. kBadData if
// `bytes` are not gzip, are truncated or damaged, contain anything after the last member, or
// decompress to more than `max_bytes` bytes. Stops decompressing at that size, so that a small file
// cannot fill the memory. `name` is the file's name in error messages, and `limit` says what sets
// the limit max_bytes.
Result<std::string> Gunzip(std::string_view bytes, const std::string& name, uint64_t max_bytes,
                           const std::string& limit = "the most allowed");

// Decompresses only the first `num_bytes` bytes of the contents, or all if there are fewer.
// kBadData if `bytes` are not gzip, or are truncated or damaged before that.
Result<std::string> GunzipBegin(std::string_view bytes, const std::string& name,
                                uint64_t num_bytes);

}  // namespace tern::data
