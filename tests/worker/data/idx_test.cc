#include "worker/data/idx.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <random>

#include "tests/limited_memory.h"
#include "tests/worker/data/idx_files.h"

namespace tern::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<uint32_t> kDims = {2, 1, 3};
const std::vector<uint8_t> kValues = {1, 2, 3, 253, 254, 255};

// The message of the error. Fails the test unless there is an error with the code kBadData.
template <typename T>
std::string ErrorOf(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kBadData);
  return result.status().message();
}

TEST(Idx, ReadsDimensionsAndValues) {
  const auto array = ParseIdx(IdxBytes(kDims, kValues), "f");
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->dims, kDims);
  EXPECT_EQ(array->values, kValues);
}

TEST(Idx, ReadsDimensionsAsBigEndian) {
  const auto array = ParseIdx(IdxBytes({0x102}, std::vector<uint8_t>(0x102, 7)), "f");
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_THAT(array->dims, ElementsAre(258u));
}

TEST(Idx, RejectsEveryTruncation) {
  const std::string file_bytes = IdxBytes(kDims, kValues);
  for (size_t length = 0; length < file_bytes.size(); ++length) {
    const std::string sentence = ErrorOf(ParseIdx(file_bytes.substr(0, length), "f"));
    EXPECT_THAT(sentence, HasSubstr("f: truncated")) << length;
  }
}

TEST(Idx, NamesBothSizesOfATruncatedFile) {
  const std::string file_bytes = IdxBytes(kDims, kValues);
  EXPECT_EQ(ErrorOf(ParseIdx(file_bytes.substr(0, file_bytes.size() - 2), "f")),
            "f: truncated: the header promises 2 x 1 x 3 = 6 values, 4 follow; get it again");
}

TEST(Idx, RejectsBytesAfterTheEnd) {
  EXPECT_EQ(ErrorOf(ParseIdx(IdxBytes(kDims, kValues) + "x", "f")),
            "f: bytes after the end: the header promises 2 x 1 x 3 = 6 values, 7 follow; "
            "get it again");
}

TEST(Idx, RejectsOtherFormats) {
  EXPECT_EQ(ErrorOf(ParseIdx("<html>...", "f")),
            "f: not an IDX file: it begins with 0x3c68746d, expected 0x00000803 (images) or "
            "0x00000801 (labels)");
}

TEST(Idx, NamesATypeThatIsNotUnsignedByte) {
  std::string bytes = IdxBytes(kDims, kValues);
  bytes[2] = 0x0d;
  EXPECT_THAT(ErrorOf(ParseIdx(bytes, "f")),
              HasSubstr("type float (it begins with 0x00000d03), expected unsigned bytes"));
}

TEST(Idx, RejectsNoDimensionsAndTooMany) {
  EXPECT_THAT(ErrorOf(ParseIdx(IdxBytes({}, {1}), "f")), HasSubstr("0 dimensions"));
  EXPECT_THAT(ErrorOf(ParseIdx(IdxBytes({1, 1, 1, 1, 1}, {1}), "f")), HasSubstr("5 dimensions"));
}

TEST(Idx, RejectsADimensionOfZero) {
  EXPECT_THAT(ErrorOf(ParseIdx(IdxBytes({2, 0, 3}, {}), "f")),
              HasSubstr("a dimension of zero (2 x 0 x 3)"));
}

TEST(Idx, RejectsDimensionsWhoseProductOverflows) {
  const uint32_t largest_dim = 0xffffffff;
  EXPECT_THAT(ErrorOf(ParseIdx(
                  IdxBytes({largest_dim, largest_dim, largest_dim, largest_dim}, kValues), "f")),
              HasSubstr("more than the 4 GiB allowed"));
  // The product of these four dimensions is 2^64, which is 0 in 64 bits.
  EXPECT_THAT(ErrorOf(ParseIdx(IdxBytes({1 << 16, 1 << 16, 1 << 16, 1 << 16}, {}), "f")),
              HasSubstr("more than the 4 GiB allowed"));
}

TEST(Idx, RejectsAHeaderThatExceedsTheFile) {
  EXPECT_THAT(ErrorOf(ParseIdx(IdxBytes({60000, 256, 256}, kValues), "f")),
              HasSubstr("= 3932160000 values, 6 follow"));
}

TEST(Idx, NamesBothCandidatesOfAMissingFile) {
  const TempFolder folder;
  const std::string path = folder.path() + "/train-images-idx3-ubyte";
  EXPECT_THAT(ErrorOf(ReadIdx(path)), HasSubstr("found neither " + path + " nor " + path + ".gz"));
}

TEST(Idx, RecognizesGzipByContent) {
  const TempFolder folder;
  const std::string idx_bytes = IdxBytes(kDims, kValues);
  folder.WriteFile("a", idx_bytes);
  folder.WriteFile("b", Gzip(idx_bytes));
  folder.WriteFile("c.gz", Gzip(idx_bytes));
  folder.WriteFile("d.gz", idx_bytes);
  for (const char* name : {"/a", "/b", "/c", "/d"}) {
    const auto array = ReadIdx(folder.path() + name);
    ASSERT_TRUE(array.ok()) << array.status().message();
    EXPECT_EQ(array->values, kValues) << name;
  }
}

TEST(Idx, UnpacksNoMoreThanTheHeaderPromises) {
  const TempFolder folder;
  const std::string bomb = Gzip(IdxBytes(kDims, kValues) + std::string(16 << 20, '\0'));
  folder.WriteFile("bomb.gz", bomb);
  const std::string path = folder.path() + "/bomb";
  EXPECT_EQ(ErrorOf(ReadIdx(path)),
            path +
                ".gz: unpacks to more than 22 bytes, which its header promises (2 x 1 x 3 values "
                "after the header); get it again");
  TERN_EXPECT_WITHIN_MEMORY(4 << 20, !ReadIdx(path).ok());
}

TEST(Idx, PrefersThePlainFile) {
  const TempFolder folder;
  folder.WriteFile("a", IdxBytes(kDims, kValues));
  folder.WriteFile("a.gz", "damaged");
  EXPECT_TRUE(ReadIdx(folder.path() + "/a").ok());
}

TEST(Idx, RejectsAPackedNameThatIsNotGzip) {
  const TempFolder folder;
  const std::string path = folder.WriteFile("a.gz", "<html>");
  EXPECT_EQ(ErrorOf(ReadIdx(folder.path() + "/a")),
            path + ": not gzip: it does not begin with 1f 8b; get it again");
}

TEST(Idx, RejectsAFolder) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() + "/a");
  EXPECT_THAT(ErrorOf(ReadIdx(folder.path() + "/a")), HasSubstr("not a regular file"));
}

TEST(Idx, RejectsAPackedFileTruncatedAtAnyLength) {
  const TempFolder folder;
  std::mt19937 random(1);
  std::vector<uint8_t> values(300);
  for (uint8_t& value : values) value = static_cast<uint8_t>(random());
  const std::string compressed = Gzip(IdxBytes({300}, values));
  for (size_t length = 0; length < compressed.size(); ++length) {
    folder.WriteFile("a.gz", compressed.substr(0, length));
    const std::string sentence = ErrorOf(ReadIdx(folder.path() + "/a"));
    EXPECT_THAT(sentence, HasSubstr(length < 2 ? "a.gz: not gzip" : "a.gz: truncated gzip"))
        << length;
  }
}

TEST(Idx, NamesThePackedFileWhoseContentsAreTruncated) {
  const TempFolder folder;
  const std::string path = folder.WriteFile("a.gz", Gzip(IdxBytes({300}, kValues)));
  EXPECT_THAT(ErrorOf(ReadIdx(folder.path() + "/a")),
              HasSubstr(path + ": truncated: the header promises 300 = 300 values, 6 follow"));
}

}  // namespace
}  // namespace tern::data
