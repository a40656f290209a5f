#include "common/base/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace tern {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Text, ConcatenatesStringsCharactersAndNumbers) {
  const std::string name = "rank";
  EXPECT_EQ(
      Cat(name, ' ', 3, "/", uint64_t{18446744073709551615u}, " ", 0.25, std::string_view("!")),
      "rank 3/18446744073709551615 0.25!");
  EXPECT_EQ(Cat(), "");
}

TEST(Text, FormatsBytesInPowersOfAThousand) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.0 KB");
  EXPECT_EQ(HumanBytes(999949), "999.9 KB");
  EXPECT_EQ(HumanBytes(999950), "1.0 MB");
  EXPECT_EQ(HumanBytes(1234567890), "1.2 GB");
  EXPECT_EQ(HumanBytes(std::numeric_limits<uint64_t>::max()), "18.4 EB");
}

TEST(Text, FormatsTimesWithAUnit) {
  EXPECT_EQ(HumanTime(microseconds(350)), "350 us");
  EXPECT_EQ(HumanTime(microseconds(12500)), "12.5 ms");
  EXPECT_EQ(HumanTime(milliseconds(3200)), "3.2 s");
  EXPECT_EQ(HumanTime(milliseconds(59960)), "1m 00s");
  EXPECT_EQ(HumanTime(seconds(245)), "4m 05s");
  EXPECT_EQ(HumanTime(seconds(2 * 3600 + 3 * 60)), "2h 03m");
  EXPECT_EQ(HumanTime(-seconds(5)), "-5.0 s");
  EXPECT_EQ(HumanTime(Time::min()).substr(0, 1), "-");
}

TEST(Text, EscapesUnprintableBytes) {
  EXPECT_EQ(Printable("plain"), "plain");
  EXPECT_EQ(Printable(std::string_view("a\n\x1b[1m\0\xff\\", 9)), "a\\x0a\\x1b[1m\\x00\\xff\\x5c");
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
}

TEST(Text, Joins) {
  EXPECT_EQ(Join({}), "");
  EXPECT_EQ(Join({"a"}), "a");
  EXPECT_EQ(Join({"a", "b", "c"}, "-"), "a-b-c");
}

}  // namespace
}  // namespace tern
