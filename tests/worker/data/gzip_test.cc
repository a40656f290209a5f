#include "worker/data/gzip.h"

#include <gmock/gmock.h>

#include "tests/worker/data/idx_files.h"

namespace tern::data {
namespace {

using testing::HasSubstr;

constexpr uint64_t kCap = 1 << 20;

std::string Sentence(const std::string& packed, uint64_t cap = kCap) {
  const Result<std::string> result = Gunzip(packed, "f", cap);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kBadData);
  return result.status().message();
}

TEST(Gunzip, RoundTrips) {
  for (const std::string& text : {std::string(), std::string("x"), std::string(700'000, 'y')}) {
    const auto unpacked = Gunzip(Gzip(text), "f", kCap);
    ASSERT_TRUE(unpacked.ok()) << unpacked.status().message();
    EXPECT_EQ(*unpacked, text);
  }
}

TEST(Gunzip, UnpacksAllMembers) {
  const auto unpacked = Gunzip(Gzip("one ") + Gzip("") + Gzip("two"), "f", kCap);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status().message();
  EXPECT_EQ(*unpacked, "one two");
}

TEST(Gunzip, StopsAtTheCap) {
  const std::string bomb = Gzip(std::string(4 << 20, '\0'));
  ASSERT_LT(bomb.size(), 8192u);
  EXPECT_EQ(Sentence(bomb), "f: unpacks to more than 1048576 bytes, the most allowed");
  EXPECT_TRUE(Gunzip(Gzip("12345"), "f", 5).ok());
  EXPECT_THAT(Sentence(Gzip("12345"), 4), HasSubstr("more than 4 bytes"));
  EXPECT_THAT(Sentence(Gzip("123") + Gzip("45"), 4), HasSubstr("more than 4 bytes"));
}

TEST(Gunzip, RejectsAWrongChecksum) {
  std::string packed = Gzip("some text");
  packed[packed.size() - 8] ^= 1;  // the last 8 bytes are the CRC-32 and the length
  EXPECT_THAT(Sentence(packed), HasSubstr("f: the gzip checksum (CRC-32) does not match"));
}

TEST(Gunzip, RejectsAWrongLength) {
  std::string packed = Gzip("some text");
  packed[packed.size() - 4] ^= 1;
  EXPECT_THAT(Sentence(packed), HasSubstr("f: damaged gzip (incorrect length check)"));
}

TEST(Gunzip, RejectsADamagedBlock) {
  std::string packed = Gzip("some text");
  packed[10] = 0x07;  // the first block's type: reserved
  EXPECT_THAT(Sentence(packed), HasSubstr("f: damaged gzip (invalid block type)"));
}

TEST(Gunzip, RejectsBytesAfterTheEnd) {
  EXPECT_THAT(Sentence(Gzip("some text") + "abc"),
              HasSubstr("f: 3 bytes follow the end of the gzip data"));
}

TEST(Gunzip, RejectsEveryFlippedByteOrUnpacksTheSame) {
  const std::string text = "a text that is long enough to have some matches in it, it, it, it";
  const std::string packed = Gzip(text);
  for (size_t i = 0; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] ^= 0x10;
    const auto unpacked = Gunzip(damaged, "f", kCap);
    if (unpacked.ok()) {  // a header byte that does not affect the contents
      EXPECT_LT(i, 10u);
      EXPECT_EQ(*unpacked, text);
    }
  }
}

}  // namespace
}  // namespace tern::data
