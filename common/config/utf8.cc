#include "common/config/utf8.h"

#include <cstdint>

namespace tern::config {

size_t PrintableSize(std::string_view text) {
  const auto first_byte = static_cast<unsigned char>(text[0]);
  if (first_byte < 0x80) return first_byte >= 0x20 && first_byte != 0x7f ? 1 : 0;
  const size_t num_bytes = first_byte >> 5 == 6    ? 2
                           : first_byte >> 4 == 14 ? 3
                           : first_byte >> 3 == 30 ? 4
                                                   : 0;
  if (num_bytes == 0 || num_bytes > text.size()) return 0;
  uint32_t code_point = first_byte & (0x7fu >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) {
    const auto next_byte = static_cast<unsigned char>(text[i]);
    if ((next_byte & 0xc0) != 0x80) return 0;
    code_point = code_point << 6 | (next_byte & 0x3fu);
  }
  // The smallest allowed code point of a character of 0, 1, 2, 3 or 4 bytes. A smaller code point
  // would need fewer bytes, or, below 0xa0, be a control character.
  constexpr uint32_t kMinCode[] = {0, 0, 0xa0, 0x800, 0x10000};
  const bool is_surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  const bool is_unprintable = code_point == 0x2028 || code_point == 0x2029 ||
                              code_point == 0xfeff || (code_point & 0xfffe) == 0xfffe;
  return code_point < kMinCode[num_bytes] || code_point > 0x10ffff || is_surrogate || is_unprintable
             ? 0
             : num_bytes;
}

bool IsPrintable(std::string_view text) {
  while (!text.empty()) {
    const size_t num_bytes = PrintableSize(text);
    if (num_bytes == 0) return false;
    text.remove_prefix(num_bytes);
  }
  return true;
}

}  // namespace tern::config
