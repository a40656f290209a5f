#include "setup/json_log.h"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace tern::setup {

using nlohmann::ordered_json;

namespace {

std::string Rfc3339(std::chrono::system_clock::time_point time) {
  const auto second = std::chrono::floor<std::chrono::seconds>(time);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time - second).count();
  const std::time_t unix_time = std::chrono::system_clock::to_time_t(second);
  std::tm utc{};
  gmtime_r(&unix_time, &utc);
  char text[64];
  const size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + size, sizeof(text) - size, ".%06dZ", static_cast<int>(micros));
  return text;
}

ordered_json NumberToJson(double number) {
  const bool is_whole = std::abs(number) < 0x1p53 && std::floor(number) == number;
  return is_whole ? ordered_json(static_cast<int64_t>(number)) : ordered_json(number);
}

}  // namespace

std::string JsonLogLine(const LogLine& line, const std::string& role, uint32_t rank) {
  ordered_json fields = {
      {"time", Rfc3339(line.time)}, {"level", line.level}, {"role", role},           {"rank", rank},
      {"file", line.file},          {"line", line.line},   {"message", line.message}};
  for (const auto& [name, number] : line.numbers) fields[name] = NumberToJson(number);
  return fields.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace tern::setup
