#include "worker/data/dataset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/worker/data/idx_files.h"
#include "worker/data/datasets.h"

namespace tern::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kImageFileBytes = IdxBytes({3, 2, 1}, {0, 1, 2, 3, 4, 5});
const std::string kLabelFileBytes = IdxBytes({3}, {4, 7, 0});

std::vector<uint8_t> PixelsOf(const Dataset& dataset) {
  std::vector<uint8_t> pixels;
  Image image;
  for (uint64_t i = 0; i < dataset.count(); ++i) {
    const Status decode_status = dataset.Decode(i, &image);
    EXPECT_TRUE(decode_status.ok()) << decode_status.message();
    pixels.insert(pixels.end(), image.pixels.begin(), image.pixels.end());
  }
  return pixels;
}

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() { data_.set_dir(folder_.path()); }

  std::string ErrorOfRead(Split split = Split::kTrain) const {
    const auto dataset = ReadDataset(data_, split);
    EXPECT_FALSE(dataset.ok());
    EXPECT_EQ(dataset.status().code(), Code::kBadData);
    return dataset.status().message();
  }

  TempFolder folder_;
  pb::Data data_;
};

TEST_F(DatasetTest, ReadsImagesAndLabels) {
  folder_.WriteImagesAndLabels("train", kImageFileBytes, kLabelFileBytes);
  const auto dataset = ReadDataset(data_, Split::kTrain);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ((*dataset)->count(), 3u);
  EXPECT_EQ((*dataset)->channels, 1u);
  EXPECT_EQ((*dataset)->height, 2u);
  EXPECT_EQ((*dataset)->width, 1u);
  EXPECT_EQ((*dataset)->image_size(), 2u);
  EXPECT_EQ((*dataset)->classes, 8u);
  EXPECT_THAT(PixelsOf(**dataset), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT((*dataset)->labels, ElementsAre(4, 7, 0));
}

TEST_F(DatasetTest, ReadsTheTestSplitFromItsOwnFiles) {
  folder_.WriteImagesAndLabels("train", kImageFileBytes, kLabelFileBytes);
  folder_.WriteImagesAndLabels("t10k", IdxBytes({1, 2, 1}, {8, 9}), IdxBytes({1}, {255}));
  const auto dataset = ReadDataset(data_, Split::kTest);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_THAT(PixelsOf(**dataset), ElementsAre(8, 9));
  EXPECT_EQ((*dataset)->classes, 256u);
}

TEST_F(DatasetTest, KeepsTheFirstImagesUpToTheLimitOfEachSplit) {
  folder_.WriteImagesAndLabels("train", kImageFileBytes, kLabelFileBytes);
  folder_.WriteImagesAndLabels("t10k", kImageFileBytes, kLabelFileBytes);
  data_.set_train_limit(1);
  data_.set_test_limit(100);
  const auto train_set = ReadDataset(data_, Split::kTrain);
  const auto test_set = ReadDataset(data_, Split::kTest);
  ASSERT_TRUE(train_set.ok() && test_set.ok());
  EXPECT_THAT(PixelsOf(**train_set), ElementsAre(0, 1));
  EXPECT_THAT((*train_set)->labels, ElementsAre(4));
  EXPECT_EQ((*train_set)->classes, 8u);
  EXPECT_EQ((*test_set)->count(), 3u);
}

TEST_F(DatasetTest, DetectsSwappedImagesAndLabels) {
  folder_.WriteImagesAndLabels("train", kLabelFileBytes, kImageFileBytes);
  EXPECT_EQ(ErrorOfRead(),
            folder_.path() +
                "/train-images-idx3-ubyte: holds 1 dimensions (0x00000801), expected 3 "
                "for images (0x00000803); it looks like labels: are images and labels "
                "swapped?");
  folder_.WriteImagesAndLabels("train", kImageFileBytes, kImageFileBytes);
  EXPECT_THAT(ErrorOfRead(), AllOf(HasSubstr("train-labels-idx1-ubyte: holds 3 dimensions"),
                                   HasSubstr("it looks like images")));
}

TEST_F(DatasetTest, RejectsImagesOfTwoDimensions) {
  folder_.WriteImagesAndLabels("train", IdxBytes({3, 2}, {0, 1, 2, 3, 4, 5}), kLabelFileBytes);
  EXPECT_THAT(ErrorOfRead(), AllOf(HasSubstr("holds 2 dimensions (0x00000802), expected 3"),
                                   testing::Not(HasSubstr("swapped"))));
}

TEST_F(DatasetTest, RejectsImagesAndLabelsOfDifferentCounts) {
  folder_.WriteImagesAndLabels("train", kImageFileBytes, IdxBytes({2}, {4, 7}));
  EXPECT_THAT(ErrorOfRead(), AllOf(HasSubstr("holds 3 images"), HasSubstr("2 labels")));
}

TEST_F(DatasetTest, NamesTheMissingFile) {
  folder_.WriteFile("train-images-idx3-ubyte", kImageFileBytes);
  EXPECT_THAT(ErrorOfRead(), HasSubstr("train-labels-idx1-ubyte.gz"));
  EXPECT_THAT(ErrorOfRead(Split::kTest), HasSubstr("t10k-images-idx3-ubyte.gz"));
}

TEST(FashionMnist, ReadsTheWholeSet) {
  const std::string dir = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(dir)) {
    GTEST_SKIP() << dir << " is not there; Debian's dataset-fashion-mnist brings it";
  }
  pb::Data data;
  data.set_dir(dir);
  const auto train_set = ReadDataset(data, Split::kTrain);
  const auto test_set = ReadDataset(data, Split::kTest);
  ASSERT_TRUE(train_set.ok()) << train_set.status().message();
  ASSERT_TRUE(test_set.ok()) << test_set.status().message();
  EXPECT_EQ((*train_set)->count(), 60000u);
  EXPECT_EQ((*test_set)->count(), 10000u);
  EXPECT_EQ((*train_set)->image_size(), 28u * 28u);
  EXPECT_EQ(PixelsOf(**train_set).size(), 60000u * 28 * 28);
  EXPECT_EQ((*train_set)->classes, 10u);
  for (uint8_t label = 0; label < 10; ++label) {
    EXPECT_EQ(std::count((*train_set)->labels.begin(), (*train_set)->labels.end(), label), 6000);
    EXPECT_EQ(std::count((*test_set)->labels.begin(), (*test_set)->labels.end(), label), 1000);
  }
}

}  // namespace
}  // namespace tern::data
