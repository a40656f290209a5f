// A test suite for every data format that the job key data.format allows. The same images must give
// the same labels and pixels in every format, and a damaged file must be refused. data_files.cc
// writes the files.
#include <gmock/gmock.h>

#include <filesystem>
#include <set>
#include <thread>

#include "tests/conformance/data_files.h"
#include "worker/data/batches.h"
#include "worker/data/prefetcher.h"
#include "worker/data/samples.h"

namespace tern::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::SizeIs;

constexpr size_t kNumTrainImages = 10, kNumTestImages = 3;

class DataConformance : public testing::TestWithParam<FormatCase> {
 protected:
  DataConformance() {
    data_.set_format(GetParam().format);
    data_.set_dir(folder_.path());
    train_files_ = WriteSplit(GetParam(), Split::kTrain, train_images_, folder_);
    WriteSplit(GetParam(), Split::kTest, test_images_, folder_);
  }

  std::unique_ptr<Dataset> ReadSplit(Split split = Split::kTrain) const {
    auto dataset = ReadDataset(data_, split);
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    return dataset.ok() ? std::move(*dataset) : nullptr;
  }
  std::unique_ptr<Samples> ReadSamples() const {
    auto samples = Samples::Make(ReadSplit(), data_, 1, Split::kTrain);
    EXPECT_TRUE(samples.ok()) << samples.status().message();
    return std::move(*samples);
  }
  // Reads the training set and decodes all its images; returns the first error.
  Status DecodeAll() const {
    const auto dataset = ReadDataset(data_, Split::kTrain);
    if (!dataset.ok()) return dataset.status();
    Image image;
    for (uint64_t i = 0; i < (*dataset)->count(); ++i)
      TERN_RETURN_IF_ERROR((*dataset)->Decode(i, &image));
    return Ok();
  }
  // Overwrites the file `path` with these bytes, and expects that reading fails with a message that
  // contains the path. Then restores the file. `why` tells what is wrong with the bytes.
  void ExpectRefused(const std::string& path, const std::string& bytes, const std::string& why) {
    const std::string original = BytesOfFile(path);
    folder_.WriteFile(fs::relative(path, folder_.path()).string(), bytes);
    const Status decode_status = DecodeAll();
    EXPECT_EQ(decode_status.code(), Code::kBadData) << path << ": " << why;
    EXPECT_THAT(decode_status.message(), HasSubstr(path)) << why;
    folder_.WriteFile(fs::relative(path, folder_.path()).string(), original);
  }
  static void ExpectSameImages(const Dataset& dataset, const Images& expected) {
    ASSERT_EQ(dataset.count(), expected.size());
    Image image;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(dataset.labels[i], expected[i].label) << i;
      const Status decode_status = dataset.Decode(i, &image);
      ASSERT_TRUE(decode_status.ok()) << decode_status.message();
      ASSERT_EQ(image.channels, GetParam().is_gray ? 1u : 3u);
      ASSERT_EQ(image.height, 32u);
      ASSERT_EQ(image.width, 32u);
      std::vector<uint8_t> pixels = expected[i].image.pixels;
      pixels.resize(image.pixels.size());  // A gray set has only the first channel.
      ASSERT_EQ(image.pixels, pixels) << "image " << i;
    }
  }

  const TempFolder folder_;
  const Images train_images_ = SomeImages(kNumTrainImages, GetParam().is_gray);
  const Images test_images_ = SomeImages(kNumTestImages, GetParam().is_gray, 40);
  std::vector<std::string> train_files_;
  pb::Data data_;
};

TEST_P(DataConformance, GivesTheLabelsAndPixelsThatWereWritten) {
  ExpectSameImages(*ReadSplit(Split::kTrain), train_images_);
  ExpectSameImages(*ReadSplit(Split::kTest), test_images_);
}

TEST_P(DataConformance, GivesGrayImagesAsEveryOtherFormat) {
  const Images gray_images = SomeImages(kNumTrainImages, true, 7);
  WriteSplit(GetParam(), Split::kTrain, gray_images, folder_);
  ExpectSameImages(*ReadSplit(), gray_images);
}

TEST_P(DataConformance, DescribesItsImages) {
  const auto dataset = ReadSplit();
  EXPECT_EQ(dataset->height, 32u);
  EXPECT_EQ(dataset->width, 32u);
  EXPECT_TRUE(dataset->sizes.size() == dataset->count() ||
              (dataset->sizes.empty() && !dataset->is_encoded));
  for (const uint32_t label : dataset->labels) EXPECT_LT(label, dataset->classes);
  EXPECT_THAT(dataset->class_names, SizeIs(dataset->class_names.empty() ? 0 : dataset->classes));
  std::set<std::string> names;
  std::vector<uint8_t> bytes;
  for (uint64_t i = 0; i < dataset->count(); ++i) {
    EXPECT_EQ(dataset->SizeOf(i), (Size{32, 32}));
    EXPECT_THAT(dataset->NameOf(i), HasSubstr(folder_.path()));
    EXPECT_TRUE(names.insert(dataset->NameOf(i)).second)
        << dataset->NameOf(i) << " names two images";
    ASSERT_TRUE(dataset->Read(i, &bytes).ok());
    EXPECT_TRUE(dataset->is_encoded || bytes.size() == dataset->image_size()) << bytes.size();
  }
}

TEST_P(DataConformance, KeepsTheFirstImagesUpToTheLimitOfTheSplit) {
  data_.set_train_limit(4);
  ExpectSameImages(*ReadSplit(Split::kTrain),
                   Images(train_images_.begin(), train_images_.begin() + 4));
  ExpectSameImages(*ReadSplit(Split::kTest), test_images_);
  data_.set_train_limit(kNumTrainImages + 1);
  data_.set_test_limit(2);
  ExpectSameImages(*ReadSplit(Split::kTrain), train_images_);
  ExpectSameImages(*ReadSplit(Split::kTest),
                   Images(test_images_.begin(), test_images_.begin() + 2));
}

TEST_P(DataConformance, NamesATruncatedFile) {
  for (const std::string& path : train_files_) {
    const std::string bytes = BytesOfFile(path);
    for (const size_t length : {size_t{0}, size_t{1}, bytes.size() / 3, bytes.size() - 1})
      ExpectRefused(path, bytes.substr(0, length), std::to_string(length) + " bytes");
  }
}

TEST_P(DataConformance, NamesAFileOfAnotherFormat) {
  for (const FormatCase& other : AllFormats()) {
    if (other.format == GetParam().format || other.has_one_file_per_image) continue;
    const TempFolder other_folder;
    const Images images = SomeImages(kNumTrainImages, false);
    for (const std::string& other_file : WriteSplit(other, Split::kTrain, images, other_folder)) {
      for (const std::string& path : {train_files_.front(), train_files_.back()})
        ExpectRefused(path, BytesOfFile(other_file), "a file of " + other.name);
    }
  }
  for (const std::string& path : train_files_)
    ExpectRefused(path, std::string(BytesOfFile(path).size() + 5, 'x'), "something else");
}

TEST_P(DataConformance, NamesAMissingFile) {
  for (const std::string& path : train_files_) {
    if (GetParam().has_one_file_per_image) break;
    const std::string bytes = BytesOfFile(path);
    fs::remove(path);
    EXPECT_EQ(DecodeAll().code(), Code::kBadData);
    EXPECT_THAT(DecodeAll().message(), HasSubstr(path));
    folder_.WriteFile(fs::relative(path, folder_.path()).string(), bytes);
  }
  data_.set_dir(folder_.path() + "/nowhere");
  EXPECT_EQ(DecodeAll().code(), Code::kBadData);
  EXPECT_THAT(DecodeAll().message(), HasSubstr(data_.dir()));
}

TEST_P(DataConformance, RefusesAnEmptySet) {
  const TempFolder empty_folder;
  data_.set_dir(empty_folder.path());
  WriteSplit(GetParam(), Split::kTest, {}, empty_folder);
  const std::vector<std::string> paths = WriteSplit(GetParam(), Split::kTrain, {}, empty_folder);
  EXPECT_EQ(DecodeAll().code(), Code::kBadData);
  EXPECT_THAT(DecodeAll().message(), HasSubstr(paths[0]));
}

TEST_P(DataConformance, NamesTheImageWhoseLabelIsTooLarge) {
  if (!GetParam().too_large_label.has_value()) {
    EXPECT_EQ(ReadSplit()->classes, 3u) << "the labels themselves say how many classes there are";
    return;
  }
  Images images = train_images_;
  images[5].label = *GetParam().too_large_label;
  const auto paths = WriteSplit(GetParam(), Split::kTrain, images, folder_);
  const Status decode_status = DecodeAll();
  EXPECT_EQ(decode_status.code(), Code::kBadData);
  // The message names the file that has the label, and the index of the image in that file.
  const size_t images_per_file = kNumTrainImages / paths.size();
  EXPECT_THAT(decode_status.message(), HasSubstr(paths[5 / images_per_file]));
  EXPECT_THAT(decode_status.message(), HasSubstr("image " + std::to_string(5 % images_per_file)));
  EXPECT_THAT(decode_status.message(), HasSubstr("label " + std::to_string(images[5].label)));
}

// However data.partition divides the images, in each epoch the workers together get each image
// once.
TEST_P(DataConformance, WorkersShareEveryEpochWithoutGapOrOverlap) {
  const auto samples = ReadSamples();
  for (const auto partition : {pb::Data::shared, pb::Data::by_sample, pb::Data::by_class}) {
    for (const uint32_t workers : {1, 2, 5}) {
      std::vector<int> times_taken(2 * kNumTrainImages);
      for (uint32_t rank = 0; rank < workers; ++rank) {
        auto batches = Batches::Make(
            *samples,
            {.rank = rank, .workers = workers, .batch_total = workers, .partition = partition});
        ASSERT_TRUE(batches.ok()) << batches.status().message();
        for (uint64_t step = 0; step < 2 * kNumTrainImages / workers; ++step) {
          for (const Augmenter::SampleId& sample : batches->SamplesAt(step))
            ++times_taken.at(sample.epoch * kNumTrainImages + sample.index);
        }
      }
      EXPECT_THAT(times_taken, testing::Each(1))
          << "partition " << partition << ", workers " << workers;
    }
  }
}

TEST_P(DataConformance, AnyThreadsReadTheSame) {
  const auto dataset = ReadSplit();
  std::vector<int> equal_counts(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < equal_counts.size(); ++t) {
    threads.emplace_back([&, t] {
      Image image;
      int num_equal = 0;
      for (size_t k = 0; k < 4 * kNumTrainImages; ++k) {
        const size_t i = (k * (2 * t + 1) + t) % kNumTrainImages;  // each thread in another order
        if (!dataset->Decode(i, &image).ok()) continue;
        std::vector<uint8_t> pixels = train_images_[i].image.pixels;
        pixels.resize(image.pixels.size());
        num_equal += image.pixels == pixels ? 1 : 0;
      }
      equal_counts[t] = num_equal;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal_counts, testing::Each(static_cast<int>(4 * kNumTrainImages)));
}

TEST_P(DataConformance, BatchesDoNotDependOnTheNumberOfThreads) {
  data_.set_threads(4);  // Four threads scan the files.
  const auto samples_of_four_threads = ReadSamples();
  data_.set_threads(1);
  const auto samples = ReadSamples();
  EXPECT_EQ(samples->dataset().labels, samples_of_four_threads->dataset().labels);
  const auto samples_of_step = [](uint64_t step) {
    return std::vector<Augmenter::SampleId>{{0, step % kNumTrainImages},
                                            {0, 9 - step % kNumTrainImages}};
  };
  Prefetcher prefetcher_of_one(*samples, samples_of_step, {.threads = 1}),
      prefetcher_of_four(*samples_of_four_threads, samples_of_step, {.threads = 4});
  for (uint64_t step = 0; step < 20; ++step) {
    const auto batch_of_one = prefetcher_of_one.Next(), batch_of_four = prefetcher_of_four.Next();
    ASSERT_TRUE(batch_of_one.ok() && batch_of_four.ok());
    EXPECT_EQ((*batch_of_one)->images, (*batch_of_four)->images);
    EXPECT_EQ((*batch_of_one)->labels, (*batch_of_four)->labels);
    const uint64_t first_image = step % kNumTrainImages;
    EXPECT_EQ((*batch_of_one)->labels, (std::vector{train_images_[first_image].label,
                                                    train_images_[9 - first_image].label}));
    EXPECT_FLOAT_EQ((*batch_of_one)->images[0],
                    static_cast<float>(train_images_[first_image].image.pixels[0]) / 255);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DataConformance, testing::ValuesIn(AllFormats()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tern::data
