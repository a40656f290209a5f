#include "setup/json_log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tern::setup {
namespace {

using nlohmann::json;

LogLine LineWith(const std::string& message) {
  using std::chrono::sys_days, std::chrono::year, std::chrono::hours, std::chrono::minutes;
  const auto time =
      sys_days{year{2026} / 3 / 1} + hours(9) + minutes(5) + std::chrono::microseconds(7'000'123);
  return {time, "WARNING", "trainer.cc", 12, message, {}};
}

TEST(JsonLog, HasTheFieldsOfALine) {
  EXPECT_EQ(JsonLogLine(LineWith("all is well"), "worker", 3),
            R"({"time":"2026-03-01T09:05:07.000123Z","level":"WARNING","role":"worker","rank":3,)"
            R"("file":"trainer.cc","line":12,"message":"all is well"})");
}

TEST(JsonLog, HasTheNumbersOfALineUnderTheirNames) {
  LogLine line = LineWith("step 812");
  line.numbers = {{"step", 812}, {"loss", 0.25}, {"big", 1e300}, {"bad", std::nan("")}};
  const json fields = json::parse(JsonLogLine(line, "server", 0));
  EXPECT_TRUE(fields["step"].is_number_integer());
  EXPECT_EQ(fields["step"], 812);
  EXPECT_EQ(fields["loss"], 0.25);
  EXPECT_EQ(fields["big"], 1e300);
  EXPECT_TRUE(fields["bad"].is_null());
}

TEST(JsonLog, StaysOneLineOfJsonWhateverTheMessageHas) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  for (const std::string& message :
       {all_bytes, std::string("two\nlines\r\n"), std::string("\xc3\x28\xff\"\\"),
        std::string("\xe2\x80\xa8 \xed\xa0\x80"), std::string()}) {
    const std::string line = JsonLogLine(LineWith(message), "worker", 0);
    for (const char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
    const json fields = json::parse(line, nullptr, false);
    ASSERT_TRUE(fields.is_object()) << line;
    EXPECT_EQ(fields["rank"], 0);
    EXPECT_EQ(fields["line"], 12);
  }
  EXPECT_EQ(json::parse(JsonLogLine(LineWith("two\nlines"), "worker", 0))["message"], "two\nlines");
}

}  // namespace
}  // namespace tern::setup
