// Which bytes are printable text.
#pragma once

#include <cstddef>
#include <string_view>

namespace tern::config {

// The number of bytes of the character at the front of `text`; 0 if it is not UTF-8 or not
// printable (control characters, also tab and newline; line and paragraph separators; byte order
// marks). REQUIRES text not empty.
size_t PrintableSize(std::string_view text);

// Whether all of `text` is printable.
bool IsPrintable(std::string_view text);

}  // namespace tern::config
