#include "worker/data/cifar.h"

#include <gmock/gmock.h>

#include "tests/worker/data/idx_files.h"
#include "worker/data/datasets.h"

namespace tern::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kImageBytes = 3072;

// The bytes of a file with one record per label; byte i of record r's image is (r + i) % 256.
std::string RecordBytes(const std::vector<int>& labels, bool has_coarse_label) {
  std::string bytes;
  for (size_t record = 0; record < labels.size(); ++record) {
    if (has_coarse_label) bytes += '\x13';
    bytes += static_cast<char>(labels[record]);
    for (size_t i = 0; i < kImageBytes; ++i) bytes += static_cast<char>(record + i);
  }
  return bytes;
}

class CifarTest : public testing::Test {
 protected:
  CifarTest() {
    data_.set_dir(folder_.path());
    data_.set_format(pb::Data::cifar10);
    for (int i = 1; i <= 5; ++i)
      folder_.WriteFile("data_batch_" + std::to_string(i) + ".bin", RecordBytes({i, 9 - i}, false));
    folder_.WriteFile("test_batch.bin", RecordBytes({3}, false));
  }
  std::string ErrorOfRead() const {
    const auto dataset = ReadDataset(data_, Split::kTrain);
    EXPECT_EQ(dataset.status().code(), Code::kBadData);
    return dataset.status().message();
  }

  TempFolder folder_;
  pb::Data data_;
};

TEST_F(CifarTest, ReadsTheBatchesInOrder) {
  const auto train_set = ReadDataset(data_, Split::kTrain),
             test_set = ReadDataset(data_, Split::kTest);
  ASSERT_TRUE(train_set.ok() && test_set.ok()) << train_set.status().message();
  EXPECT_THAT((*train_set)->labels, ElementsAre(1, 8, 2, 7, 3, 6, 4, 5, 5, 4));
  EXPECT_THAT((*test_set)->labels, ElementsAre(3));
  EXPECT_EQ((*train_set)->classes, 10u);
  Image image;
  ASSERT_TRUE((*train_set)->Decode(5, &image).ok());  // the second record of a file
  EXPECT_EQ(image.channels, 3u);
  EXPECT_EQ(image.height, 32u);
  EXPECT_EQ(image.pixels[0], 1);
  EXPECT_EQ(image.pixels[kImageBytes - 1], 0);
}

TEST_F(CifarTest, KeepsTheFirstImagesUpToTheLimit) {
  data_.set_train_limit(3);
  EXPECT_THAT((*ReadDataset(data_, Split::kTrain))->labels, ElementsAre(1, 8, 2));
}

TEST_F(CifarTest, ReadsTheFineLabelsOfCifar100) {
  data_.set_format(pb::Data::cifar100);
  folder_.WriteFile("train.bin", RecordBytes({99, 42}, true));
  const auto train_set = ReadDataset(data_, Split::kTrain);
  ASSERT_TRUE(train_set.ok()) << train_set.status().message();
  EXPECT_THAT((*train_set)->labels, ElementsAre(99, 42));
  EXPECT_EQ((*train_set)->classes, 100u);
  Image image;
  ASSERT_TRUE((*train_set)->Decode(1, &image).ok());
  EXPECT_EQ(image.pixels[0], 1);
}

TEST_F(CifarTest, NamesTheError) {
  const std::string path = folder_.WriteFile("data_batch_4.bin", RecordBytes({1}, false).substr(1));
  EXPECT_THAT(ErrorOfRead(), HasSubstr(path + ": 3072 bytes; expected a multiple of 3073"));
  folder_.WriteFile("data_batch_4.bin", "");
  EXPECT_THAT(ErrorOfRead(), HasSubstr(path + ": 0 bytes; expected a multiple of 3073"));
  folder_.WriteFile("data_batch_4.bin", RecordBytes({1, 10}, false));
  EXPECT_THAT(ErrorOfRead(), HasSubstr(path + ": image 1 has label 10; expected 0 to 9"));
  folder_.WriteFile("data_batch_4.bin", RecordBytes({1}, true));  // a file of CIFAR-100
  EXPECT_THAT(ErrorOfRead(), HasSubstr("or check data.format"));
  std::remove(path.c_str());
  EXPECT_THAT(ErrorOfRead(), HasSubstr(path + ": cannot be opened (No such file"));
}

}  // namespace
}  // namespace tern::data
