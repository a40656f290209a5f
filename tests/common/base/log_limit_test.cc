#include "common/base/log_limit.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

using std::chrono::milliseconds;

TEST(LogLimit, LetsOneLineASecondPassAndCountsTheOthers) {
  LogLimit limit;
  const Time start = milliseconds(5);  // the first line passes whatever the time is
  EXPECT_EQ(limit.Line("a", start), "a");
  EXPECT_EQ(limit.Line("b", start + milliseconds(1)), "");
  EXPECT_EQ(limit.Line("c", start + milliseconds(999)), "");
  EXPECT_EQ(limit.Line("d", start + milliseconds(1000)), "d (and 2 more like it before)");
  EXPECT_EQ(limit.Line("e", start + milliseconds(1500)), "");
  EXPECT_EQ(limit.Line("f", start + milliseconds(2000)), "f (and 1 more like it before)");
  EXPECT_EQ(limit.Line("g", start + milliseconds(3000)), "g");
}

}  // namespace
}  // namespace tern
