#include "worker/data/cifar.h"

#include <gmock/gmock.h>

#include "tests/worker/data/idx_files.h"
#include "worker/data/datasets.h"

namespace tern::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kPixels = 3072;

// One record per label; pixel i of record r is (r + i) % 256.
std::string Records(const std::vector<int>& labels, bool coarse) {
  std::string bytes;
  for (size_t r = 0; r < labels.size(); ++r) {
    if (coarse) bytes += '\x13';
    bytes += static_cast<char>(labels[r]);
    for (size_t i = 0; i < kPixels; ++i) bytes += static_cast<char>(r + i);
  }
  return bytes;
}

class CifarTest : public testing::Test {
 protected:
  CifarTest() {
    data_.set_dir(folder_.path());
    data_.set_format(pb::Data::cifar10);
    for (int i = 1; i <= 5; ++i)
      folder_.Write("data_batch_" + std::to_string(i) + ".bin", Records({i, 9 - i}, false));
    folder_.Write("test_batch.bin", Records({3}, false));
  }
  std::string Sentence() const {
    const auto dataset = ReadDataset(data_, Split::kTrain);
    EXPECT_EQ(dataset.status().code(), Code::kBadData);
    return dataset.status().message();
  }

  TempFolder folder_;
  pb::Data data_;
};

TEST_F(CifarTest, ReadsTheBatchesInOrder) {
  const auto train = ReadDataset(data_, Split::kTrain), test = ReadDataset(data_, Split::kTest);
  ASSERT_TRUE(train.ok() && test.ok()) << train.status().message();
  EXPECT_THAT((*train)->labels, ElementsAre(1, 8, 2, 7, 3, 6, 4, 5, 5, 4));
  EXPECT_THAT((*test)->labels, ElementsAre(3));
  EXPECT_EQ((*train)->classes, 10u);
  Image image;
  ASSERT_TRUE((*train)->Decode(5, &image).ok());  // the second record of a file
  EXPECT_EQ(image.channels, 3u);
  EXPECT_EQ(image.height, 32u);
  EXPECT_EQ(image.pixels[0], 1);
  EXPECT_EQ(image.pixels[kPixels - 1], 0);
}

TEST_F(CifarTest, KeepsTheFirstImagesUpToTheLimit) {
  data_.set_train_limit(3);
  EXPECT_THAT((*ReadDataset(data_, Split::kTrain))->labels, ElementsAre(1, 8, 2));
}

TEST_F(CifarTest, ReadsTheFineLabelsOfCifar100) {
  data_.set_format(pb::Data::cifar100);
  folder_.Write("train.bin", Records({99, 42}, true));
  const auto train = ReadDataset(data_, Split::kTrain);
  ASSERT_TRUE(train.ok()) << train.status().message();
  EXPECT_THAT((*train)->labels, ElementsAre(99, 42));
  EXPECT_EQ((*train)->classes, 100u);
  Image image;
  ASSERT_TRUE((*train)->Decode(1, &image).ok());
  EXPECT_EQ(image.pixels[0], 1);
}

TEST_F(CifarTest, NamesTheError) {
  const std::string path = folder_.Write("data_batch_4.bin", Records({1}, false).substr(1));
  EXPECT_THAT(Sentence(), HasSubstr(path + ": 3072 bytes; expected a multiple of 3073"));
  folder_.Write("data_batch_4.bin", "");
  EXPECT_THAT(Sentence(), HasSubstr(path + ": 0 bytes; expected a multiple of 3073"));
  folder_.Write("data_batch_4.bin", Records({1, 10}, false));
  EXPECT_THAT(Sentence(), HasSubstr(path + ": image 1 has label 10; expected 0 to 9"));
  folder_.Write("data_batch_4.bin", Records({1}, true));  // a file of CIFAR-100
  EXPECT_THAT(Sentence(), HasSubstr("or check data.format"));
  std::remove(path.c_str());
  EXPECT_THAT(Sentence(), HasSubstr(path + ": cannot be opened (No such file"));
}

}  // namespace
}  // namespace tern::data
