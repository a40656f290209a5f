#include "worker/data/packed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "common/base/hash.h"
#include "tests/worker/data/idx_files.h"
#include "tests/worker/data/image_files.h"
#include "worker/data/datasets.h"
#include "worker/data/packed_form.h"

namespace tern::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kImages = 5;

// Writes a number into the bytes of a file.
template <typename Number>
void Set(std::string* bytes, size_t at, Number number) {
  std::memcpy(bytes->data() + at, &number, sizeof number);
}
uint64_t Get(const std::string& bytes, size_t at) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// Makes the digests match the changed bytes, as an attacker would.
void SignAgain(std::string* bytes) {
  const size_t index = Get(*bytes, offsetof(PackedHeader, index_begin));
  const size_t length = Get(*bytes, offsetof(PackedHeader, index_bytes));
  if (index <= bytes->size() && length <= bytes->size() - index)
    Set(bytes, offsetof(PackedHeader, index_digest), Digest(bytes->substr(index, length)));
  const size_t signed_bytes = offsetof(PackedHeader, header_digest);
  Set(bytes, signed_bytes, Digest(bytes->substr(0, signed_bytes)));
}

class PackedTest : public testing::Test {
 protected:
  PackedTest() {
    data_.set_format(pb::Data::packed);
    data_.set_dir(folder_.path());
    auto writer = PackWriter::Make(path_, {true, 0, 3, {"ant", "bee", "cat"}});
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    for (uint32_t i = 0; i < kImages; ++i) {
      const std::string image = EncodePng(Picture(3, 6 + i % 2, 5, i));
      EXPECT_TRUE((*writer)->Add(AsVector(image), i % 3, {6 + i % 2, 5}).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    std::ostringstream whole;
    whole << std::ifstream(path_, std::ios::binary).rdbuf();
    bytes_ = whole.str();
  }

  Result<std::unique_ptr<Dataset>> Read() const { return ReadDataset(data_, Split::kTrain); }
  std::string Sentence(const std::string& bytes) const {
    folder_.Write("train.tpk", bytes);
    const auto dataset = Read();
    EXPECT_EQ(dataset.status().code(), Code::kBadData);
    return dataset.status().message();
  }
  // Opens the file after a change with corrected digests.
  std::string SentenceOf(const std::function<void(std::string*)>& change) const {
    std::string bytes = bytes_;
    change(&bytes);
    SignAgain(&bytes);
    return Sentence(bytes);
  }
  size_t Entry(size_t i) const {
    return Get(bytes_, offsetof(PackedHeader, index_begin)) + i * kPackedEntryBytes;
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/train.tpk";
  pb::Data data_;
  std::string bytes_;
};

TEST_F(PackedTest, RoundTrips) {
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status().message();
  const Dataset& set = **read;
  EXPECT_THAT(set.names, ElementsAre("ant", "bee", "cat"));
  EXPECT_THAT(set.labels, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_EQ(set.classes, 3u);
  EXPECT_EQ(set.height, 0u) << "the sizes differ";
  EXPECT_EQ(set.NameOf(2), "image 2 of " + path_);
  Image image;
  for (uint32_t i = 0; i < kImages; ++i) {
    ASSERT_TRUE(set.Decode(i, &image).ok());
    EXPECT_EQ(Distance(image, Picture(3, 6 + i % 2, 5, i)), 0);
  }
}

TEST_F(PackedTest, LeavesNoTemporaryFiles) {
  { const auto unfinished = PackWriter::Make(folder_.path() + "/test.tpk", {}); }
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    ++files;
  EXPECT_EQ(files, 1u);
}

TEST_F(PackedTest, KeepsTheFirstImagesUpToTheLimit) {
  data_.set_train_limit(2);
  EXPECT_THAT((*Read())->labels, ElementsAre(0, 1));
}

TEST_F(PackedTest, StoresPixelsToo) {
  auto writer = PackWriter::Make(path_, {false, 3, 10, {}});
  const Image image = Picture(3, 4, 7);
  ASSERT_TRUE((*writer)->Add(image.pixels, 9, {4, 7}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto read = ReadDataset(data_, Split::kTrain, {.channels = 1});
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ((*read)->channels, 3u) << "pixels are what they are";
  EXPECT_TRUE((*read)->names.empty());
  Image seen;
  ASSERT_TRUE((*read)->Decode(0, &seen).ok());
  EXPECT_EQ(Distance(seen, image), 0);
}

TEST_F(PackedTest, RefusesEveryOtherLength) {
  for (size_t length = 0; length < bytes_.size(); length += length < 200 ? 1 : 7)
    EXPECT_NE(Sentence(bytes_.substr(0, length)), "") << length;
  EXPECT_THAT(Sentence(""), HasSubstr("truncated: 0 bytes, shorter than the header"));
  EXPECT_THAT(Sentence(bytes_.substr(0, 200)), HasSubstr("the file has 200: truncated"));
  EXPECT_THAT(Sentence(bytes_ + "x"), HasSubstr("the header promises"));
}

TEST_F(PackedTest, DetectsEveryChangedByte) {
  for (size_t at = 0; at < bytes_.size(); ++at) {
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    folder_.Write("train.tpk", bytes);
    const auto read = Read();
    int damaged = 0;
    Image image;
    for (uint64_t i = 0; read.ok() && i < (*read)->count(); ++i)
      damaged += (*read)->Decode(i, &image).ok() ? 0 : 1;
    EXPECT_TRUE(!read.ok() || damaged == 1) << at;
  }
}

TEST_F(PackedTest, NamesTheImageWhoseBytesChanged) {
  std::string bytes = bytes_;
  bytes[kPackedHeaderBytes + 3] ^= 1;
  folder_.Write("train.tpk", bytes);
  const auto read = Read();
  ASSERT_TRUE(read.ok());
  Image image;
  EXPECT_THAT((*read)->Decode(0, &image).message(),
              HasSubstr(path_ + ": the digest of image 0 does not match its bytes; pack it again"));
}

TEST_F(PackedTest, DescribesOtherFiles) {
  EXPECT_THAT(Sentence(std::string(200, 'x')), HasSubstr("not a packed file: it begins with"));
  EXPECT_THAT(SentenceOf([](std::string* b) { Set(b, offsetof(PackedHeader, version), 2u); }),
              HasSubstr("version 2 of packed files; this program knows 1; pack it again"));
  std::remove(path_.c_str());
  EXPECT_THAT(Read().status().message(), HasSubstr(path_ + ": cannot be opened"));
}

// Changes that no accident makes, but an attacker can.
TEST_F(PackedTest, ChecksEveryNumberOfTheHeader) {
  const std::vector<std::pair<size_t, uint64_t>> changes = {
      {offsetof(PackedHeader, count), uint64_t{1} << 59},
      {offsetof(PackedHeader, count), kImages + 1},
      {offsetof(PackedHeader, count), 0},
      {offsetof(PackedHeader, classes), 0},
      {offsetof(PackedHeader, index_begin), ~uint64_t{0}},
      {offsetof(PackedHeader, index_begin), 8},
      {offsetof(PackedHeader, index_bytes), ~uint64_t{0}},
      {offsetof(PackedHeader, names_begin), bytes_.size() + 1},
      {offsetof(PackedHeader, names_bytes), ~uint64_t{0} - 4},
  };
  for (const auto& [at, number] : changes) {
    EXPECT_THAT(SentenceOf([&, at = at, number = number](std::string* b) { Set(b, at, number); }),
                HasSubstr(path_))
        << at << " = " << number;
  }
}

TEST_F(PackedTest, ChecksEveryNumberOfTheIndex) {
  const auto sentence = [this](size_t at, auto number) {
    return SentenceOf([&](std::string* b) { Set(b, Entry(1) + at, number); });
  };
  for (const uint64_t offset : {uint64_t{0}, ~uint64_t{0}, uint64_t{bytes_.size()}})
    EXPECT_THAT(sentence(offsetof(PackedEntry, offset), offset), HasSubstr("image 1 of its index"));
  for (const uint32_t size : {0xffffffffu, 1u << 20})
    EXPECT_THAT(sentence(offsetof(PackedEntry, bytes), size), HasSubstr("does not fit"));
  EXPECT_THAT(sentence(offsetof(PackedEntry, label), 3u), HasSubstr("label 3"));
  EXPECT_THAT(sentence(offsetof(PackedEntry, height), 0u), HasSubstr("5 x 0"));
  EXPECT_THAT(sentence(offsetof(PackedEntry, width), 0xffffffffu), HasSubstr("does not fit"));
}

TEST_F(PackedTest, RefusesAnUnwritableFolder) {
  const auto writer = PackWriter::Make(folder_.path() + "/none/train.tpk", {});
  EXPECT_EQ(writer.status().code(), Code::kCannotWrite);
  EXPECT_THAT(writer.status().message(), HasSubstr("cannot be written (No such file"));
}

}  // namespace
}  // namespace tern::data
