#include "common/base/text.h"

#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>

namespace tern {
namespace {

template <typename... Args>
std::string Format(const char* format, Args... args) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

}  // namespace

std::string FormatWith(const char* format, double value) { return Format(format, value); }

std::string FormatFixed(double value, int num_decimals) {
  return Format("%.*f", num_decimals, value);
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1000) return Format("%" PRIu64 " B", bytes);
  static constexpr std::array kUnits = {"KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  // From 999.95 on the format would print 1000.0, so the next unit is used.
  for (; value >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return Format("%.1f %s", value, kUnits[unit]);
}

std::string HumanTime(Time t) {
  if (t < Time::zero()) return Cat("-", HumanTime(t == Time::min() ? Time::max() : -t));
  const double seconds = Seconds(t);
  if (seconds < 999.5e-6) return Format("%.0f us", seconds * 1e6);
  if (seconds < 0.99995) return Format("%.1f ms", seconds * 1e3);
  if (seconds < 59.95) return Format("%.1f s", seconds);
  const int64_t whole_seconds = std::llround(seconds);
  if (whole_seconds < 3600)
    return Format("%" PRId64 "m %02" PRId64 "s", whole_seconds / 60, whole_seconds % 60);
  return Format("%" PRId64 "h %02" PRId64 "m", whole_seconds / 3600, whole_seconds % 3600 / 60);
}

static std::string MakePrintable(std::string_view text, size_t max_bytes, bool escape_backslashes) {
  std::string out;
  for (const char c : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && (c != '\\' || !escape_backslashes)) {
      out += c;
    } else {
      out += Format("\\x%02x", static_cast<unsigned>(byte));
    }
  }
  if (text.size() > max_bytes) out += "...";
  return out;
}

std::string Thousands(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t comma_at = text.size(); comma_at > 3;) text.insert(comma_at -= 3, ",");
  return text;
}

std::string Printable(std::string_view text, size_t max_bytes) {
  return MakePrintable(text, max_bytes, true);
}

std::string PrintableSentence(std::string_view text, size_t max_bytes) {
  return MakePrintable(text, max_bytes, false);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) out += separator;
    out += part;
  }
  return out;
}

}  // namespace tern
