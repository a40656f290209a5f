#include "common/config/utf8.h"

#include <cstdint>

namespace tern::config {

size_t PrintableSize(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t size = first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (size == 0 || size > text.size()) return 0;
  uint32_t code = first & (0x7fu >> size);
  for (size_t i = 1; i < size; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return 0;
    code = code << 6 | (next & 0x3fu);
  }
  // The smallest allowed code point of a character of 0, 1, 2, 3 or 4 bytes. A smaller code point
  // would need fewer bytes, or, below 0xa0, be a control character.
  constexpr uint32_t kMinCode[] = {0, 0, 0xa0, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool unprintable =
      code == 0x2028 || code == 0x2029 || code == 0xfeff || (code & 0xfffe) == 0xfffe;
  return code < kMinCode[size] || code > 0x10ffff || surrogate || unprintable ? 0 : size;
}

bool IsPrintable(std::string_view text) {
  while (!text.empty()) {
    const size_t size = PrintableSize(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace tern::config
