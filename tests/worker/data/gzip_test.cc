#include "worker/data/gzip.h"

#include <gmock/gmock.h>

#include "tests/worker/data/idx_files.h"

namespace tern::data {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMaxBytes = 1 << 20;

std::string ErrorOfGunzip(const std::string& compressed, uint64_t max_bytes = kMaxBytes) {
  const Result<std::string> result = Gunzip(compressed, "f", max_bytes);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kBadData);
  return result.status().message();
}

TEST(Gunzip, RoundTrips) {
  for (const std::string& text : {std::string(), std::string("x"), std::string(700'000, 'y')}) {
    const auto unpacked = Gunzip(Gzip(text), "f", kMaxBytes);
    ASSERT_TRUE(unpacked.ok()) << unpacked.status().message();
    EXPECT_EQ(*unpacked, text);
  }
}

TEST(Gunzip, UnpacksAllMembers) {
  const auto unpacked = Gunzip(Gzip("one ") + Gzip("") + Gzip("two"), "f", kMaxBytes);
  ASSERT_TRUE(unpacked.ok()) << unpacked.status().message();
  EXPECT_EQ(*unpacked, "one two");
}

TEST(Gunzip, StopsAtTheCap) {
  const std::string bomb = Gzip(std::string(4 << 20, '\0'));
  ASSERT_LT(bomb.size(), 8192u);
  EXPECT_EQ(ErrorOfGunzip(bomb), "f: unpacks to more than 1048576 bytes, the most allowed");
  EXPECT_TRUE(Gunzip(Gzip("12345"), "f", 5).ok());
  EXPECT_THAT(ErrorOfGunzip(Gzip("12345"), 4), HasSubstr("more than 4 bytes"));
  EXPECT_THAT(ErrorOfGunzip(Gzip("123") + Gzip("45"), 4), HasSubstr("more than 4 bytes"));
}

TEST(Gunzip, RejectsAWrongChecksum) {
  std::string compressed = Gzip("some text");
  compressed[compressed.size() - 8] ^= 1;  // the last 8 bytes are the CRC-32 and the length
  EXPECT_THAT(ErrorOfGunzip(compressed), HasSubstr("f: the gzip checksum (CRC-32) does not match"));
}

TEST(Gunzip, RejectsAWrongLength) {
  std::string compressed = Gzip("some text");
  compressed[compressed.size() - 4] ^= 1;
  EXPECT_THAT(ErrorOfGunzip(compressed), HasSubstr("f: damaged gzip (incorrect length check)"));
}

TEST(Gunzip, RejectsADamagedBlock) {
  std::string compressed = Gzip("some text");
  compressed[10] = 0x07;  // the first block's type: reserved
  EXPECT_THAT(ErrorOfGunzip(compressed), HasSubstr("f: damaged gzip (invalid block type)"));
}

TEST(Gunzip, RejectsBytesAfterTheEnd) {
  EXPECT_THAT(ErrorOfGunzip(Gzip("some text") + "abc"),
              HasSubstr("f: 3 bytes follow the end of the gzip data"));
}

TEST(Gunzip, RejectsEveryFlippedByteOrUnpacksTheSame) {
  const std::string original = "a text that is long enough to have some matches in it, it, it, it";
  const std::string compressed = Gzip(original);
  for (size_t i = 0; i < compressed.size(); ++i) {
    std::string damaged = compressed;
    damaged[i] ^= 0x10;
    const auto unpacked = Gunzip(damaged, "f", kMaxBytes);
    if (unpacked.ok()) {  // a header byte that does not affect the contents
      EXPECT_LT(i, 10u);
      EXPECT_EQ(*unpacked, original);
    }
  }
}

}  // namespace
}  // namespace tern::data
