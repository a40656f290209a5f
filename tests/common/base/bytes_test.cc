#include "common/base/bytes.h"

#include <gtest/gtest.h>

#include <array>

#include "common/base/hash.h"

namespace tern {
namespace {

TEST(Bytes, OwnsStringsAndVectors) {
  EXPECT_EQ(Bytes::Own(std::string("abc")).view(), "abc");
  EXPECT_EQ(Bytes::Own(std::vector<uint8_t>{'a', 'b'}).view(), "ab");
  EXPECT_TRUE(Bytes().empty());
}

TEST(Bytes, ReleasesOnceWithTheLastCopy) {
  const std::array<uint8_t, 4> data = {1, 2, 3, 4};
  int num_releases = 0;
  {
    Bytes slice;
    {
      const Bytes all_bytes = Bytes::Share(data.data(), data.size(), [&] { ++num_releases; });
      const Bytes copy = all_bytes;
      slice = copy.Slice(1, 2);
    }
    EXPECT_EQ(num_releases, 0);
    EXPECT_EQ(slice.size(), 2u);
    EXPECT_EQ(slice.data(), data.data() + 1);
  }
  EXPECT_EQ(num_releases, 1);
}

TEST(Digest, IsEqualOnEveryMachine) {
  EXPECT_EQ(Hex(0xf00dcafe01234567), "f00dcafe01234567");
  // BLAKE2b-128 of "abc" begins with cf4ab791c62b8d2b.
  EXPECT_EQ(Hex(__builtin_bswap64(Digest("abc"))), "cf4ab791c62b8d2b");
}

}  // namespace
}  // namespace tern
