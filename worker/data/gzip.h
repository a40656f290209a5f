// Unpacking of gzip (RFC 1952) in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tern::data {

// Whether `bytes` begin as every gzip file does (1f 8b).
bool IsGzip(std::string_view bytes);

// Unpacks all members of `bytes`. Memory grows with what really comes out, never beyond `cap`
// bytes. kBadData for what is not gzip, truncated, damaged, longer than `cap` or followed by other
// bytes; `name` is for messages.
Result<std::string> Gunzip(std::string_view bytes, const std::string& name, uint64_t cap);

}  // namespace tern::data
