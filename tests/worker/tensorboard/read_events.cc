#include "tests/worker/tensorboard/read_events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "common/base/crc32c.h"

namespace tern::tensorboard {
namespace {

// REQUIRES a little-endian machine.
template <typename T>
T Number(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

uint32_t Unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8u;
  return rotated >> 17 | rotated << 15;
}

}  // namespace

std::vector<std::string> EventFiles(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<pb::Event> ReadEvents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  std::vector<pb::Event> events;
  for (size_t at = 0; at + 12 <= bytes.size();) {
    const auto length = Number<uint64_t>(bytes, at);
    EXPECT_EQ(Crc32c(std::string_view(bytes).substr(at, 8)),
              Unmasked(Number<uint32_t>(bytes, at + 8)));
    if (at + 16 + length > bytes.size()) break;
    const std::string_view data = std::string_view(bytes).substr(at + 12, length);
    EXPECT_EQ(Crc32c(data), Unmasked(Number<uint32_t>(bytes, at + 12 + length)));
    pb::Event event;
    EXPECT_TRUE(event.ParseFromArray(data.data(), static_cast<int>(data.size())));
    events.push_back(std::move(event));
    at += 16 + length;
  }
  return events;
}

ByTag ValuesOf(const std::vector<pb::Event>& events) {
  ByTag by_tag;
  for (const pb::Event& event : events) {
    for (const pb::Summary::Value& value : event.summary().value())
      by_tag[value.tag()][event.step()] = value;
  }
  return by_tag;
}

}  // namespace tern::tensorboard
