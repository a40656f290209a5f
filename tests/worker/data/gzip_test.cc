#include "worker/data/gzip.h"

#include <gmock/gmock.h>

#include "tests/worker/data/idx_files.h"

namespace tern::data {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMaxBytes = 1 << 20;

std::string ErrorOfGunzip(const std::string& compressed_bytes, uint64_t max_bytes = kMaxBytes) {
  const Result<std::string> unpacked_text = Gunzip(compressed_bytes, "f", max_bytes);
  EXPECT_FALSE(unpacked_text.ok());
  EXPECT_EQ(unpacked_text.status().code(), Code::kBadData);
  return unpacked_text.status().message();
}

TEST(Gunzip, RoundTrips) {
  for (const std::string& text : {std::string(), std::string("x"), std::string(700'000, 'y')}) {
    const auto unpacked_text = Gunzip(Gzip(text), "f", kMaxBytes);
    ASSERT_TRUE(unpacked_text.ok()) << unpacked_text.status().message();
    EXPECT_EQ(*unpacked_text, text);
  }
}

TEST(Gunzip, UnpacksAllMembers) {
  const auto unpacked_text = Gunzip(Gzip("one ") + Gzip("") + Gzip("two"), "f", kMaxBytes);
  ASSERT_TRUE(unpacked_text.ok()) << unpacked_text.status().message();
  EXPECT_EQ(*unpacked_text, "one two");
}

TEST(Gunzip, StopsAtTheCap) {
  const std::string zip_bomb = Gzip(std::string(4 << 20, '\0'));
  ASSERT_LT(zip_bomb.size(), 8192u);
  EXPECT_EQ(ErrorOfGunzip(zip_bomb), "f: unpacks to more than 1048576 bytes, the most allowed");
  EXPECT_TRUE(Gunzip(Gzip("12345"), "f", 5).ok());
  EXPECT_THAT(ErrorOfGunzip(Gzip("12345"), 4), HasSubstr("more than 4 bytes"));
  EXPECT_THAT(ErrorOfGunzip(Gzip("123") + Gzip("45"), 4), HasSubstr("more than 4 bytes"));
}

TEST(Gunzip, NamesWhatSetsTheCap) {
  EXPECT_EQ(Gunzip(Gzip("12345"), "f", 4, "as promised").status().message(),
            "f: unpacks to more than 4 bytes, as promised");
}

TEST(GunzipBegin, UnpacksNoMoreThanAsked) {
  EXPECT_EQ(*GunzipBegin(Gzip("12345"), "f", 3), "123");
  EXPECT_EQ(*GunzipBegin(Gzip("12345"), "f", 9), "12345");
  EXPECT_EQ(*GunzipBegin(Gzip("12") + Gzip("345"), "f", 4), "1234");
  const std::string truncated_bytes = Gzip("12345").substr(0, 12);
  EXPECT_THAT(GunzipBegin(truncated_bytes, "f", 9).status().message(),
              HasSubstr("f: truncated gzip"));
}

TEST(Gunzip, RejectsAWrongChecksum) {
  std::string compressed_bytes = Gzip("some text");
  // The last 8 bytes are the CRC-32 and the length.
  compressed_bytes[compressed_bytes.size() - 8] ^= 1;
  EXPECT_THAT(ErrorOfGunzip(compressed_bytes),
              HasSubstr("f: the gzip checksum (CRC-32) does not match"));
}

TEST(Gunzip, RejectsAWrongLength) {
  std::string compressed_bytes = Gzip("some text");
  compressed_bytes[compressed_bytes.size() - 4] ^= 1;
  EXPECT_THAT(ErrorOfGunzip(compressed_bytes),
              HasSubstr("f: damaged gzip (incorrect length check)"));
}

TEST(Gunzip, RejectsADamagedBlock) {
  std::string compressed_bytes = Gzip("some text");
  compressed_bytes[10] = 0x07;  // the first block's type: reserved
  EXPECT_THAT(ErrorOfGunzip(compressed_bytes), HasSubstr("f: damaged gzip (invalid block type)"));
}

TEST(Gunzip, RejectsBytesAfterTheEnd) {
  EXPECT_THAT(ErrorOfGunzip(Gzip("some text") + "abc"),
              HasSubstr("f: 3 bytes follow the end of the gzip data"));
}

TEST(Gunzip, RejectsEveryFlippedByteOrUnpacksTheSame) {
  const std::string original_text =
      "a text that is long enough to have some matches in it, it, it, it";
  const std::string compressed_bytes = Gzip(original_text);
  for (size_t i = 0; i < compressed_bytes.size(); ++i) {
    std::string damaged_bytes = compressed_bytes;
    damaged_bytes[i] ^= 0x10;
    const auto unpacked_text = Gunzip(damaged_bytes, "f", kMaxBytes);
    if (unpacked_text.ok()) {  // a header byte that does not affect the contents
      EXPECT_LT(i, 10u);
      EXPECT_EQ(*unpacked_text, original_text);
    }
  }
}

}  // namespace
}  // namespace tern::data
