// Checks for printable UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace tern::config {

// The number of bytes of the first character of `text`; 0 if it is not UTF-8 or not printable
// (control characters including tab and newline, line and paragraph separators, byte order marks).
// REQUIRES that text is not empty.
size_t PrintableSize(std::string_view text);

// Whether all of `text` is printable.
bool IsPrintable(std::string_view text);

}  // namespace tern::config
