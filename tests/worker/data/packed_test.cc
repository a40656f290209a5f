#include "worker/data/packed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "common/base/hash.h"
#include "tests/limited_memory.h"
#include "tests/worker/data/idx_files.h"
#include "tests/worker/data/image_files.h"
#include "worker/data/datasets.h"
#include "worker/data/packed_form.h"

namespace tern::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kNumImages = 5;

// Writes a number into the bytes of a file.
template <typename Number>
void WriteNumber(std::string* bytes, size_t position, Number number) {
  std::memcpy(bytes->data() + position, &number, sizeof number);
}
uint64_t ReadNumber(const std::string& bytes, size_t position) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data() + position, sizeof number);
  return number;
}

// Recomputes the digests of the index and the header, so that they match changed bytes.
void UpdateDigests(std::string* bytes) {
  const size_t index_offset = ReadNumber(*bytes, offsetof(PackedHeader, index_begin));
  const size_t index_length = ReadNumber(*bytes, offsetof(PackedHeader, index_bytes));
  if (index_offset <= bytes->size() && index_length <= bytes->size() - index_offset)
    WriteNumber(bytes, offsetof(PackedHeader, index_digest),
                Digest(bytes->substr(index_offset, index_length)));
  const size_t digested_bytes = offsetof(PackedHeader, header_digest);
  WriteNumber(bytes, digested_bytes, Digest(bytes->substr(0, digested_bytes)));
}

class PackedTest : public testing::Test {
 protected:
  PackedTest() {
    data_.set_format(pb::Data::packed);
    data_.set_dir(folder_.path());
    auto writer = PackWriter::Make(path_, {true, 0, 3, {"ant", "bee", "cat"}});
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    for (uint32_t i = 0; i < kNumImages; ++i) {
      const std::string image = EncodePng(MakePicture(3, 6 + i % 2, 5, i));
      EXPECT_TRUE((*writer)->Add(AsVector(image), i % 3, {6 + i % 2, 5}).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    std::ostringstream file_bytes;
    file_bytes << std::ifstream(path_, std::ios::binary).rdbuf();
    bytes_ = file_bytes.str();
  }

  Result<std::unique_ptr<Dataset>> ReadPacked() const { return ReadDataset(data_, Split::kTrain); }
  std::string ErrorOfBytes(const std::string& bytes) const {
    folder_.WriteFile("train.tpk", bytes);
    const auto dataset = ReadPacked();
    EXPECT_EQ(dataset.status().code(), Code::kBadData);
    return dataset.status().message();
  }
  // The error of opening the file after a change, with digests that match the changed bytes.
  std::string ErrorOfChange(const std::function<void(std::string*)>& change) const {
    std::string bytes = bytes_;
    change(&bytes);
    UpdateDigests(&bytes);
    return ErrorOfBytes(bytes);
  }
  size_t EntryBegin(size_t i) const {
    return ReadNumber(bytes_, offsetof(PackedHeader, index_begin)) + i * kPackedEntryBytes;
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/train.tpk";
  pb::Data data_;
  std::string bytes_;
};

TEST_F(PackedTest, RoundTrips) {
  const auto dataset = ReadPacked();
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  const Dataset& set = **dataset;
  EXPECT_THAT(set.class_names, ElementsAre("ant", "bee", "cat"));
  EXPECT_THAT(set.labels, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_EQ(set.classes, 3u);
  EXPECT_EQ(set.height, 0u) << "the sizes differ";
  EXPECT_EQ(set.NameOf(2), "image 2 of " + path_);
  Image image;
  for (uint32_t i = 0; i < kNumImages; ++i) {
    ASSERT_TRUE(set.Decode(i, &image).ok());
    EXPECT_EQ(LargestDifference(image, MakePicture(3, 6 + i % 2, 5, i)), 0);
  }
}

TEST_F(PackedTest, LeavesNoTemporaryFiles) {
  { const auto unfinished_writer = PackWriter::Make(folder_.path() + "/test.tpk", {}); }
  size_t num_files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    ++num_files;
  EXPECT_EQ(num_files, 1u);
}

TEST_F(PackedTest, HasItsFinalNameWhenItIsFinished) {
  const std::string path = folder_.path() + "/test.tpk";
  {
    const auto writer = PackWriter::Make(path, {true, 0, 3, {"ant", "bee", "cat"}});
    ASSERT_TRUE((*writer)->Add(AsVector(EncodePng(MakePicture(3, 6, 5, 0))), 0, {6, 5}).ok());
    ASSERT_TRUE((*writer)->Complete().ok());
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
  const auto writer = PackWriter::Make(path, {true, 0, 3, {"ant", "bee", "cat"}});
  ASSERT_TRUE((*writer)->Add(AsVector(EncodePng(MakePicture(3, 6, 5, 0))), 0, {6, 5}).ok());
  ASSERT_TRUE((*writer)->Complete().ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_TRUE(ReadDataset(data_, Split::kTest).ok());
}

// Labels are numbers, which mean other classes in a file with other names.
TEST_F(PackedTest, RefusesATestSetOfOtherClasses) {
  const auto writer = PackWriter::Make(folder_.path() + "/test.tpk", {true, 0, 2, {"bee", "cat"}});
  ASSERT_TRUE((*writer)->Add(AsVector(EncodePng(MakePicture(3, 6, 5, 0))), 0, {6, 5}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const Status status = ReadDataset(data_, split).status();
    EXPECT_EQ(status.code(), Code::kBadData);
    EXPECT_THAT(status.message(), HasSubstr("the two do not belong together"));
  }
}

TEST_F(PackedTest, KeepsTheFirstImagesUpToTheLimit) {
  data_.set_train_limit(2);
  EXPECT_THAT((*ReadPacked())->labels, ElementsAre(0, 1));
  // They lie class by class, as in a folder.
  data_.set_train_limit(1);
  std::vector<std::string> warnings;
  ReadOptions options;
  options.warn = [&](const std::string& sentence) { warnings.push_back(sentence); };
  ASSERT_TRUE(ReadDataset(data_, Split::kTrain, options).ok());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("the first 1 training images belong to only 1 of")));
}

TEST_F(PackedTest, StoresPixelsToo) {
  auto writer = PackWriter::Make(path_, {false, 3, 10, {}});
  const Image image = MakePicture(3, 4, 7);
  ASSERT_TRUE((*writer)->Add(image.pixels, 9, {4, 7}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto dataset = ReadDataset(data_, Split::kTrain, {.channels = 1});
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ((*dataset)->channels, 3u) << "pixels are what they are";
  EXPECT_TRUE((*dataset)->class_names.empty());
  Image decoded;
  ASSERT_TRUE((*dataset)->Decode(0, &decoded).ok());
  EXPECT_EQ(LargestDifference(decoded, image), 0);
}

TEST_F(PackedTest, RefusesEveryOtherLength) {
  for (size_t length = 0; length < bytes_.size(); length += length < 200 ? 1 : 7)
    EXPECT_NE(ErrorOfBytes(bytes_.substr(0, length)), "") << length;
  EXPECT_THAT(ErrorOfBytes(""), HasSubstr("truncated: 0 bytes, shorter than the header"));
  EXPECT_THAT(ErrorOfBytes(bytes_.substr(0, 200)), HasSubstr("the file has 200: truncated"));
  EXPECT_THAT(ErrorOfBytes(bytes_ + "x"), HasSubstr("the header promises"));
}

TEST_F(PackedTest, DetectsEveryChangedByte) {
  for (size_t position = 0; position < bytes_.size(); ++position) {
    std::string bytes = bytes_;
    bytes[position] = static_cast<char>(bytes[position] ^ 0x10);
    folder_.WriteFile("train.tpk", bytes);
    const auto dataset = ReadPacked();
    int num_damaged_images = 0;
    Image image;
    for (uint64_t i = 0; dataset.ok() && i < (*dataset)->count(); ++i)
      num_damaged_images += (*dataset)->Decode(i, &image).ok() ? 0 : 1;
    EXPECT_TRUE(!dataset.ok() || num_damaged_images == 1) << position;
  }
}

TEST_F(PackedTest, NamesTheImageWhoseBytesChanged) {
  std::string bytes = bytes_;
  bytes[kPackedHeaderBytes + 3] ^= 1;
  folder_.WriteFile("train.tpk", bytes);
  const auto dataset = ReadPacked();
  ASSERT_TRUE(dataset.ok());
  Image image;
  EXPECT_THAT((*dataset)->Decode(0, &image).message(),
              HasSubstr(path_ + ": the digest of image 0 does not match its bytes; pack it again"));
}

TEST_F(PackedTest, DescribesOtherFiles) {
  EXPECT_THAT(ErrorOfBytes(std::string(200, 'x')), HasSubstr("not a packed file: it begins with"));
  EXPECT_THAT(
      ErrorOfChange([](std::string* b) { WriteNumber(b, offsetof(PackedHeader, version), 2u); }),
      HasSubstr("version 2 of packed files; this program knows 1; pack it again"));
  std::remove(path_.c_str());
  EXPECT_THAT(ReadPacked().status().message(), HasSubstr(path_ + ": cannot be opened"));
}

// Wrong numbers under a matching digest: no accident writes them, but an attacker can.
TEST_F(PackedTest, ChecksEveryNumberOfTheHeader) {
  const std::vector<std::pair<size_t, uint64_t>> changes = {
      {offsetof(PackedHeader, count), uint64_t{1} << 59},
      {offsetof(PackedHeader, count), kNumImages + 1},
      {offsetof(PackedHeader, count), 0},
      {offsetof(PackedHeader, classes), 0},
      {offsetof(PackedHeader, index_begin), ~uint64_t{0}},
      {offsetof(PackedHeader, index_begin), 8},
      {offsetof(PackedHeader, index_bytes), ~uint64_t{0}},
      {offsetof(PackedHeader, names_begin), bytes_.size() + 1},
      {offsetof(PackedHeader, names_bytes), ~uint64_t{0} - 4},
  };
  for (const auto& [position, number] : changes) {
    EXPECT_THAT(ErrorOfChange([&, position = position, number = number](std::string* b) {
                  WriteNumber(b, position, number);
                }),
                HasSubstr(path_))
        << position << " = " << number;
  }
}

TEST_F(PackedTest, ChecksEveryNumberOfTheIndex) {
  const auto error_of_entry_with = [this](size_t position, auto number) {
    return ErrorOfChange([&](std::string* b) { WriteNumber(b, EntryBegin(1) + position, number); });
  };
  for (const uint64_t offset : {uint64_t{0}, ~uint64_t{0}, uint64_t{bytes_.size()}})
    EXPECT_THAT(error_of_entry_with(offsetof(PackedEntry, offset), offset),
                HasSubstr("image 1 of its index"));
  for (const uint32_t num_bytes : {0xffffffffu, 1u << 20})
    EXPECT_THAT(error_of_entry_with(offsetof(PackedEntry, bytes), num_bytes),
                HasSubstr("does not fit"));
  EXPECT_THAT(error_of_entry_with(offsetof(PackedEntry, label), 3u), HasSubstr("label 3"));
  EXPECT_THAT(error_of_entry_with(offsetof(PackedEntry, height), 0u), HasSubstr("5 x 0"));
  EXPECT_THAT(error_of_entry_with(offsetof(PackedEntry, width), 0xffffffffu),
              HasSubstr("does not fit"));
}

// A section of class names can have millions of empty names.
TEST_F(PackedTest, ReadsNoMoreNamesThanClasses) {
  constexpr size_t kNamesBytes = 8 << 20;
  std::string bytes = bytes_ + std::string(kNamesBytes, '\0');
  WriteNumber(&bytes, offsetof(PackedHeader, names_begin), uint64_t{bytes_.size()});
  WriteNumber(&bytes, offsetof(PackedHeader, names_bytes), uint64_t{kNamesBytes});
  WriteNumber(&bytes, offsetof(PackedHeader, names_digest), Digest(bytes.substr(bytes_.size())));
  WriteNumber(&bytes, offsetof(PackedHeader, file_bytes), uint64_t{bytes.size()});
  UpdateDigests(&bytes);
  EXPECT_THAT(ErrorOfBytes(bytes), HasSubstr("the names of its 3 classes do not fit"));
  TERN_EXPECT_WITHIN_MEMORY(24 << 20, !ReadPacked().ok());
}

TEST_F(PackedTest, RefusesAnUnwritableFolder) {
  const auto writer = PackWriter::Make(folder_.path() + "/none/train.tpk", {});
  EXPECT_EQ(writer.status().code(), Code::kCannotWrite);
  EXPECT_THAT(writer.status().message(), HasSubstr("cannot be written (No such file"));
}

}  // namespace
}  // namespace tern::data
