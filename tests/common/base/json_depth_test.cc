#include "common/base/json_depth.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(JsonNestsAtMost, CountsBracketsOutsideOfStrings) {
  EXPECT_TRUE(JsonNestsAtMost("", 0));
  EXPECT_TRUE(JsonNestsAtMost(R"({"a": [1, 2], "b": [{}]})", 3));
  EXPECT_FALSE(JsonNestsAtMost(R"({"a": [1, 2], "b": [{}]})", 2));
  EXPECT_TRUE(JsonNestsAtMost(R"("[[[\"[[")", 0));
  EXPECT_FALSE(JsonNestsAtMost(R"("\\"[)", 0));
  EXPECT_TRUE(JsonNestsAtMost("[]{}[]", 1));
  EXPECT_FALSE(JsonNestsAtMost("]]][[", 1));
}

}  // namespace
}  // namespace tern
