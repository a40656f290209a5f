// Helpers that format text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/base/clock.h"

namespace tern {

// Concatenates strings, characters and numbers: Cat("rank ", 3, " of ", n). Floating-point numbers
// are printed as with %g.
template <typename... Parts>
std::string Cat(const Parts&... parts);

// Formats a number of bytes: "812 B", "1.3 KB", "45.0 MB". The units are powers of 1000.
std::string HumanBytes(uint64_t bytes);
// Formats a duration: "350 us", "12.5 ms", "3.2 s", "4m 05s", "2h 03m".
std::string HumanTime(Time t);
// Formats a number with a conversion of printf: FormatWith("%.2g s", 0.123) is "0.12 s". At most 63
// characters.
std::string FormatWith(const char* format, double value);
// Formats a number with this many decimals: FormatFixed(0.126, 2) is "0.13".
std::string FormatFixed(double value, int num_decimals);
// Formats a number with a comma after every three digits: "60,000".
std::string Thousands(uint64_t number);
// Makes untrusted bytes safe for a log line: keeps printable ASCII, replaces other bytes by \xNN,
// and cuts after `max_bytes` input bytes with "...".
std::string Printable(std::string_view text, size_t max_bytes = 80);
// Like Printable, for a message from another process that has already escaped the message: does not
// escape backslashes again.
std::string PrintableSentence(std::string_view text, size_t max_bytes = 1000);
// Concatenates `parts` with `separator` between them: "a, b, c".
std::string Join(const std::vector<std::string>& parts, std::string_view separator = ", ");

namespace text_internal {
template <typename T>
void Append(std::string* out, const T& part) {
  if constexpr (std::is_same_v<T, char>) {
    *out += part;
  } else if constexpr (std::is_integral_v<T>) {
    *out += std::to_string(part);
  } else if constexpr (std::is_floating_point_v<T>) {
    *out += FormatWith("%g", part);
  } else {
    *out += std::string_view(part);
  }
}
}  // namespace text_internal

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  (text_internal::Append(&out, parts), ...);
  return out;
}

}  // namespace tern
