#include "common/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace tern {
namespace {

// The published check value of the string 123456789, and the values of RFC 3720, appendix B.4.
TEST(Crc32c, MatchesPublishedValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string ascending_bytes;
  for (char c = 0; c < 32; ++c) ascending_bytes += c;
  EXPECT_EQ(Crc32c(ascending_bytes), 0x46DD794Eu);
}

}  // namespace
}  // namespace tern
