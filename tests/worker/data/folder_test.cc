#include "worker/data/folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/worker/data/idx_files.h"
#include "tests/worker/data/image_files.h"
#include "worker/data/datasets.h"
#include "worker/data/prefetcher.h"
#include "worker/data/samples.h"

namespace tern::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    data_.set_format(pb::Data::folder);
    data_.set_dir(folder_.path());
    for (const char* split : {"train", "test"}) {
      for (const char* class_name : {"dog", "Cat", "ant"}) {
        for (const char* file_name : {"b.JPG", "a.png", "c.jpeg"})
          WriteImageFile(split, class_name, file_name);
      }
    }
  }

  std::string WriteImageFile(const std::string& split, const std::string& class_name,
                             const std::string& file_name, const std::string& bytes) const {
    std::filesystem::create_directories(folder_.path() + "/" + split + "/" + class_name);
    return folder_.WriteFile(split + "/" + class_name + "/" + file_name, bytes);
  }
  std::string WriteImageFile(const std::string& split, const std::string& class_name,
                             const std::string& file_name, uint32_t seed = 0) const {
    const Image image = MakePicture(3, 12, 10, seed);
    return WriteImageFile(split, class_name, file_name,
                          file_name[0] == 'a' ? EncodePng(image) : EncodeJpeg(image));
  }
  Result<std::unique_ptr<Dataset>> ReadSplit(Split split = Split::kTrain) {
    ReadOptions options;
    options.warn = [this](const std::string& sentence) { warnings_.push_back(sentence); };
    return ReadDataset(data_, split, options);
  }
  std::string ErrorOfRead(Split split = Split::kTrain) {
    const auto dataset = ReadSplit(split);
    EXPECT_EQ(dataset.status().code(), Code::kBadData);
    return dataset.status().message();
  }

  TempFolder folder_;
  pb::Data data_;
  std::vector<std::string> warnings_;
};

TEST_F(FolderTest, ListsClassesAndFilesInTheOrderOfTheirNames) {
  const auto train_set = ReadSplit();
  ASSERT_TRUE(train_set.ok()) << train_set.status().message();
  const Dataset& dataset = **train_set;
  EXPECT_THAT(dataset.class_names, ElementsAre("Cat", "ant", "dog"));
  EXPECT_THAT(dataset.labels, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2));
  EXPECT_EQ(dataset.NameOf(3), folder_.path() + "/train/ant/a.png");
  EXPECT_EQ(dataset.NameOf(8), folder_.path() + "/train/dog/c.jpeg");
  EXPECT_EQ(dataset.classes, 3u);
  EXPECT_EQ(dataset.height, 12u);
  EXPECT_EQ(dataset.width, 10u);
  EXPECT_THAT(warnings_, IsEmpty());
  Image image;
  for (uint64_t i = 0; i < dataset.count(); ++i) {
    ASSERT_TRUE(dataset.Decode(i, &image).ok());
    EXPECT_LE(LargestDifference(image, MakePicture(3, 12, 10)), 40);
  }
}

TEST_F(FolderTest, DecodesToGrayWhereTheModelTakesOneChannel) {
  const auto train_set = ReadDataset(data_, Split::kTrain, {.channels = 1});
  Image image;
  ASSERT_TRUE((*train_set)->Decode(0, &image).ok());
  EXPECT_EQ(image.channels, 1u);
}

TEST_F(FolderTest, UsesValAsTest) {
  std::filesystem::rename(folder_.path() + "/test", folder_.path() + "/val");
  const auto test_set = ReadSplit(Split::kTest);
  ASSERT_TRUE(test_set.ok()) << test_set.status().message();
  EXPECT_THAT((*test_set)->NameOf(0), HasSubstr("/val/Cat/a.png"));
}

TEST_F(FolderTest, SkipsOtherFilesWithAWarning) {
  WriteImageFile("train", "dog", ".hidden.jpg", "x");
  WriteImageFile("train", "dog", "notes.txt", "x");
  WriteImageFile("train", "dog", "jpg", "x");
  ASSERT_EQ((*ReadSplit())->count(), 9u);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("2 files skipped, because their names")));
}

TEST_F(FolderTest, WarnsIfTheLimitLeavesOutClasses) {
  data_.set_train_limit(4);
  ASSERT_EQ((*ReadSplit())->count(), 4u);
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("the first 4 training images belong to only 2 of 3 classes")));
}

TEST_F(FolderTest, ReportsProgress) {
  std::vector<std::pair<uint64_t, uint64_t>> reports;
  ASSERT_TRUE(ReadDataset(data_, Split::kTrain,
                          {.progress = [&](uint64_t done,
                                           uint64_t total) { reports.emplace_back(done, total); }})
                  .ok());
  EXPECT_THAT(reports, ElementsAre(std::pair(9u, 9u)));
}

TEST_F(FolderTest, SkipsDamagedImagesUpToTheLimit) {
  const std::string empty_file = WriteImageFile("train", "dog", "b.JPG", std::string());
  const std::string text_file = WriteImageFile("train", "Cat", "c.jpeg", "<html>not here</html>");
  EXPECT_THAT(ErrorOfRead(), AllOf(HasSubstr(text_file + ": neither JPEG nor PNG"),
                                   HasSubstr("damaged images so far: 1, allowed: 0")));
  data_.set_max_corrupt(1);
  EXPECT_THAT(ErrorOfRead(), AllOf(HasSubstr(empty_file + ": empty (0 bytes)"),
                                   HasSubstr("so far: 2, allowed: 1; replace them, or raise")));
  data_.set_max_corrupt(2);
  for (const uint32_t num_threads : {1u, 2u, 5u}) {
    data_.set_threads(num_threads);
    warnings_.clear();
    const auto train_set = ReadSplit();
    ASSERT_TRUE(train_set.ok());
    EXPECT_EQ((*train_set)->count(), 7u);
    EXPECT_THAT((*train_set)->labels, ElementsAre(0, 0, 1, 1, 1, 2, 2));
    EXPECT_THAT((*train_set)->NameOf(6), HasSubstr("dog/c.jpeg"));
    EXPECT_EQ((*train_set)->damaged_images->count(), 2u);
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(text_file), HasSubstr(empty_file)));
  }
}

TEST_F(FolderTest, RefusesASetOfOnlyDamagedImages) {
  for (const char* class_name : {"dog", "Cat", "ant"}) {
    for (const char* file_name : {"b.JPG", "a.png", "c.jpeg"})
      WriteImageFile("train", class_name, file_name, "no");
  }
  data_.set_max_corrupt(100);
  EXPECT_THAT(ErrorOfRead(), HasSubstr("all of its images are damaged"));
}

TEST_F(FolderTest, NeverBlocksOnPipes) {
  data_.set_max_corrupt(4);
  const std::string dog_folder = folder_.path() + "/train/dog/";
  ASSERT_EQ(mkfifo((dog_folder + "pipe.jpg").c_str(), 0600), 0);
  ASSERT_EQ(symlink("loop.jpg", (dog_folder + "loop.jpg").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", (dog_folder + "dangling.jpg").c_str()), 0);
  ASSERT_EQ(symlink("a.png", (dog_folder + "link.png").c_str()), 0);  // a valid link
  const auto train_set = ReadSplit();
  ASSERT_TRUE(train_set.ok()) << train_set.status().message();
  EXPECT_EQ((*train_set)->count(), 10u);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("dangling.jpg: cannot be opened"),
                                     HasSubstr("loop.jpg: cannot be opened (Too many levels"),
                                     HasSubstr("pipe.jpg: not a regular file")));
}

TEST_F(FolderTest, NamesAnUnreadableFile) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const std::string path = folder_.path() + "/train/ant/a.png";
  std::filesystem::permissions(path, std::filesystem::perms::none);
  EXPECT_THAT(ErrorOfRead(), HasSubstr(path + ": cannot be opened (Permission denied)"));
}

TEST_F(FolderTest, RefusesEmptyOrMissingFolders) {
  const std::string dog_folder = folder_.path() + "/train/dog";
  std::filesystem::remove_all(dog_folder);
  std::filesystem::create_directory(dog_folder);
  EXPECT_THAT(ErrorOfRead(), HasSubstr(dog_folder + ": holds no image"));
  std::filesystem::create_directory(dog_folder + "/puppy");
  EXPECT_THAT(ErrorOfRead(), HasSubstr(dog_folder + ": holds a folder 'puppy'"));
  std::filesystem::remove_all(dog_folder);
  EXPECT_THAT(ErrorOfRead(),
              AllOf(HasSubstr("/test: has a class 'dog'"), HasSubstr("/train does not have")));
  std::filesystem::remove_all(folder_.path() + "/train");
  EXPECT_THAT(ErrorOfRead(), HasSubstr("/train: cannot be listed (No such file"));
  std::filesystem::create_directory(folder_.path() + "/train");
  EXPECT_THAT(ErrorOfRead(), HasSubstr("/train: holds no folders; expected one for each class"));
  std::filesystem::remove_all(folder_.path() + "/test");
  EXPECT_THAT(ErrorOfRead(Split::kTest), HasSubstr("/test: cannot be listed"));
}

TEST_F(FolderTest, DifferentSizesRequireACrop) {
  WriteImageFile("train", "dog", "d.png", EncodePng(MakePicture(3, 20, 11)));
  const auto read_samples = [this] { return Samples::Read(data_, 1, Split::kTrain, {}); };
  EXPECT_THAT(read_samples().status().message(),
              AllOf(HasSubstr("Cat/a.png comes out as 10 x 12"),
                    HasSubstr("dog/d.png as 11 x 20; set data.augmentation.height and width")));
  data_.mutable_augmentation()->set_height(11);
  data_.mutable_augmentation()->set_width(11);
  EXPECT_THAT(read_samples().status().message(),
              AllOf(HasSubstr("Cat/a.png: is 10 x 12 pixels"), HasSubstr("resize_shorter")));
  data_.mutable_augmentation()->set_resize_shorter(11);
  const auto samples = read_samples();
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  EXPECT_EQ((*samples)->size(), (Size{11, 11}));
}

// The file is cut in half. Its header is valid, so only decoding detects the damage.
TEST_F(FolderTest, ReplacesAnImageFoundDamagedOnUse) {
  const std::string png = EncodePng(MakePicture(3, 12, 10, 9));
  const std::string path = WriteImageFile("train", "ant", "b.JPG", png.substr(0, png.size() / 2));
  Samples::Scratch scratch;
  uint32_t label = 9;
  for (const uint64_t limit : {0u, 1u}) {
    data_.set_max_corrupt(limit);
    auto samples =
        Samples::Read(data_, 1, Split::kTrain,
                      {.warn = [this](const std::string& s) { warnings_.push_back(s); }});
    ASSERT_TRUE(samples.ok()) << samples.status().message();
    std::vector<float> image_4((*samples)->image_size()), image_5 = image_4;
    const Status fill_status = (*samples)->FillFloats({0, 4}, &scratch, image_4.data(), &label);
    if (limit == 0) {
      EXPECT_EQ(fill_status.code(), Code::kBadData);
      EXPECT_THAT(fill_status.message(), HasSubstr(path + ": damaged PNG"));
      continue;
    }
    ASSERT_TRUE(fill_status.ok());
    ASSERT_TRUE((*samples)->FillFloats({0, 5}, &scratch, image_5.data(), &label).ok());
    EXPECT_EQ(image_4, image_5);
    EXPECT_TRUE((*samples)->FillFloats({0, 4}, &scratch, image_4.data(), &label).ok());
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(path)));  // reported once
  }
}

// The threads that fill the other images of the batch succeed, some of them later.
TEST_F(FolderTest, ADamagedImageIsAnErrorOfItsWholeBatch) {
  const std::string png = EncodePng(MakePicture(3, 12, 10, 9));
  WriteImageFile("train", "ant", "b.JPG", png.substr(0, png.size() / 2));
  auto samples = Samples::Read(data_, 1, Split::kTrain, {});
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  const auto damaged_one_first = [](uint64_t) {
    std::vector<Augmenter::SampleId> ids(30, {0, 5});
    ids[0].index = 4;
    return ids;
  };
  Prefetcher prefetcher(**samples, damaged_one_first, {.threads = 1});
  EXPECT_EQ(prefetcher.Next().status().code(), Code::kBadData);
}

// A test image that only decoding shows to be damaged is not counted, nor is its neighbor twice.
TEST_F(FolderTest, LeavesOutATestImageFoundDamagedOnUse) {
  for (const char* file_name : {"a.png", "b.JPG", "c.jpeg"})
    WriteImageFile("test", "ant", file_name, file_name[0]);  // images that differ
  const std::string png = EncodePng(MakePicture(3, 12, 10, 9));
  WriteImageFile("test", "ant", "b.JPG", png.substr(0, png.size() / 2));
  data_.set_max_corrupt(1);
  auto samples = Samples::Read(data_, 1, Split::kTest, {});
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  const auto all_images = [](uint64_t) {
    std::vector<Augmenter::SampleId> ids;
    for (uint64_t i = 0; i < 9; ++i) ids.push_back({0, i});
    return ids;
  };
  const size_t image_size = (*samples)->image_size();
  for (const bool fills_bytes : {false, true}) {
    Prefetcher prefetcher(**samples, all_images, {.threads = 2, .fills_bytes = fills_bytes});
    const auto batch = prefetcher.Next();
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    EXPECT_THAT((*batch)->labels, ElementsAre(0, 0, 0, 1, 1, 2, 2, 2));
    Samples::Scratch scratch;
    std::vector<float> floats(image_size);
    std::vector<uint8_t> bytes(image_size);
    kernels::PixelDraws draws;
    uint32_t label = 0;
    for (const auto& [place, index] : {std::pair(3, 3), std::pair(4, 5), std::pair(7, 8)}) {
      const auto begin = static_cast<ptrdiff_t>(place * image_size);
      if (fills_bytes) {
        ASSERT_TRUE((*samples)
                        ->FillBytes({0, static_cast<uint64_t>(index)}, &scratch, bytes.data(),
                                    &draws, &label)
                        .ok());
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), (*batch)->bytes.begin() + begin));
      } else {
        ASSERT_TRUE(
            (*samples)
                ->FillFloats({0, static_cast<uint64_t>(index)}, &scratch, floats.data(), &label)
                .ok());
        EXPECT_TRUE(std::equal(floats.begin(), floats.end(), (*batch)->images.begin() + begin));
      }
    }
  }
}

}  // namespace
}  // namespace tern::data
