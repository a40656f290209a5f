// Decompression of gzip (RFC 1952) in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tern::data {

// Whether `bytes` begin with gzip's magic number (1f 8b).
bool IsGzip(std::string_view bytes);

// Decompresses all members of `bytes`. Memory grows with the actual output, never beyond `cap`
// bytes. kBadData if the input is not gzip, truncated, damaged, longer than `cap` or followed by
// other bytes; `name` is used in messages.
Result<std::string> Gunzip(std::string_view bytes, const std::string& name, uint64_t cap);

}  // namespace tern::data
