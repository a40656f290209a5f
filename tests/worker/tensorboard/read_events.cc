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

// Reads a number of the machine's byte order, which must be little-endian as in event files.
template <typename T>
T ReadNumber(std::string_view bytes, size_t position) {
  T value;
  std::memcpy(&value, bytes.data() + position, sizeof value);
  return value;
}

// Inverts the masking of checksums in event files, which is a rotation and then an addition.
uint32_t UnmaskCrc(uint32_t masked_crc) {
  const uint32_t rotated = masked_crc - 0xA282EAD8u;
  return rotated >> 17 | rotated << 15;
}

}  // namespace

std::vector<std::string> EventFiles(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code ignored_error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored_error))
    paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<pb::Event> ReadEvents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  const std::string bytes = contents.str();
  std::vector<pb::Event> events;
  for (size_t record_begin = 0; record_begin + 12 <= bytes.size();) {
    const auto data_bytes = ReadNumber<uint64_t>(bytes, record_begin);
    EXPECT_EQ(Crc32c(std::string_view(bytes).substr(record_begin, 8)),
              UnmaskCrc(ReadNumber<uint32_t>(bytes, record_begin + 8)));
    if (record_begin + 16 + data_bytes > bytes.size()) break;
    const std::string_view data = std::string_view(bytes).substr(record_begin + 12, data_bytes);
    EXPECT_EQ(Crc32c(data), UnmaskCrc(ReadNumber<uint32_t>(bytes, record_begin + 12 + data_bytes)));
    pb::Event event;
    EXPECT_TRUE(event.ParseFromArray(data.data(), static_cast<int>(data.size())));
    events.push_back(std::move(event));
    record_begin += 16 + data_bytes;
  }
  return events;
}

ValuesByTag ValuesOf(const std::vector<pb::Event>& events) {
  ValuesByTag values_by_tag;
  for (const pb::Event& event : events) {
    for (const pb::Summary::Value& value : event.summary().value())
      values_by_tag[value.tag()][event.step()] = value;
  }
  return values_by_tag;
}

}  // namespace tern::tensorboard
