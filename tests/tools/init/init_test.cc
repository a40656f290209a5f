// Tests of `tern init`: the job that it writes for images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/base/text.h"
#include "setup/setup.h"
#include "tests/conformance/data_files.h"
#include "tests/e2e/job_fixture.h"
#include "tests/worker/data/image_files.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Runs `tern init IMAGES` with a new file, and expects that `tern check` accepts the job in it.
// Returns the job.
pb::Job InitializedJob(TestJob* job, const std::string& images) {
  const std::string path = job->folder() + "/made.yaml";
  TestProgram& init = job->StartTern({"init", images, "--job", path});
  EXPECT_EQ(init.Wait(), 0) << init.err();
  EXPECT_THAT(init.out(), StartsWith("wrote " + path));
  EXPECT_THAT(init.err(), Not(HasSubstr("of at most"))) << "nobody gave a limit";
  TestProgram& check = job->StartTern({"check", path});
  EXPECT_EQ(check.Wait(), 0) << check.err() << ReadFile(path);
  const auto made_job = config::LoadJob(path, {}, setup::KnownNames());
  EXPECT_TRUE(made_job.ok()) << ReadFile(path);
  return made_job.ok() ? *made_job : pb::Job();
}

// Writes 4 images a class and split. `value` gives a pixel's color in a class.
std::string WriteFolder(const TestJob& job, uint32_t height, uint32_t width, uint32_t num_classes,
                        const std::function<uint8_t(uint32_t label, uint32_t channel)>& value) {
  const std::string folder = job.folder() + "/it's \"my\" images";
  for (const char* split : {"train", "test"}) {
    for (uint32_t label = 0; label < num_classes; ++label) {
      const std::string path = Cat(folder, "/", split, "/class", label);
      std::filesystem::create_directories(path);
      data::Image image;
      image.Resize(3, height, width);
      for (size_t j = 0; j < image.pixels.size(); ++j)
        image.pixels[j] = value(label, static_cast<uint32_t>(j / image.plane()));
      for (uint32_t i = 0; i < 4; ++i)
        std::ofstream(Cat(path, "/", i, ".png"), std::ios::binary) << data::EncodePng(image);
    }
  }
  return folder;
}

TEST(Init, LooksAtAFolderOfImages) {
  TestJob job;
  const std::string folder = WriteFolder(job, 120, 90, 2, [](uint32_t label, uint32_t channel) {
    return static_cast<uint8_t>(channel == 0 ? 51 : label == 0 ? 0 : 255);
  });
  const pb::Job made_job = InitializedJob(&job, folder);
  EXPECT_EQ(made_job.name(), "it_s_my_images");
  EXPECT_EQ(made_job.data().format(), pb::Data::folder);
  EXPECT_EQ(made_job.data().dir(), folder);
  EXPECT_EQ(made_job.model().name(), "resnet18_v2");
  EXPECT_EQ(made_job.model().classes(), 2u);
  EXPECT_EQ(made_job.model().input_channels(), 3u);
  EXPECT_EQ(made_job.model().input_height(), 64u);
  ASSERT_EQ(made_job.data().mean_size(), 3);
  EXPECT_FLOAT_EQ(made_job.data().mean(0), 0.2f);
  EXPECT_FLOAT_EQ(made_job.data().mean(1), 0.5f);
  EXPECT_FLOAT_EQ(made_job.data().std(0), 0.001f) << "one color only";
  EXPECT_FLOAT_EQ(made_job.data().std(1), 0.5f);
  EXPECT_EQ(made_job.data().augmentation().resize_shorter(), 72u);
  EXPECT_EQ(made_job.train().batch_total(), 8u);
  EXPECT_EQ(made_job.checkpoints().every_steps(), 1u);
}

TEST(Init, FindsThatImagesAreGray) {
  TestJob job;
  const std::string folder = WriteFolder(
      job, 32, 32, 3, [](uint32_t label, uint32_t) { return static_cast<uint8_t>(100 * label); });
  const pb::Job made_job = InitializedJob(&job, folder);
  EXPECT_EQ(made_job.model().name(), "resnet20");
  EXPECT_EQ(made_job.model().input_channels(), 1u);
  EXPECT_EQ(made_job.model().classes(), 3u);
  EXPECT_EQ(made_job.data().mean_size(), 1);
  EXPECT_EQ(made_job.data().augmentation().pad(), 4u);
  EXPECT_EQ(made_job.data().augmentation().resize_shorter(), 0u);
}

TEST(Init, KnowsEveryFormat) {
  for (const data::FormatCase& format : data::AllFormats()) {
    SCOPED_TRACE(format.name);
    TestJob job;
    const data::TempFolder images;
    for (const auto split : {data::Split::kTrain, data::Split::kTest})
      data::WriteSplit(format, split, data::SomeImages(12, format.is_gray), images);
    const pb::Job made_job = InitializedJob(&job, images.path());
    EXPECT_EQ(made_job.data().format(), format.format);
    EXPECT_EQ(made_job.model().input_channels(), format.is_gray ? 1u : 3u);
  }
}

// The job of the digits of the test fixture, and the network for it.
TEST(Init, WritesAJobThatTrains) {
  TestJob job;
  const pb::Job made_job = InitializedJob(&job, job.data_dir());
  EXPECT_EQ(made_job.data().format(), pb::Data::idx);
  EXPECT_EQ(made_job.model().name(), "lenet");
  EXPECT_EQ(made_job.model().classes(), 10u);
  EXPECT_EQ(made_job.train().batch_total(), 64u);
  const std::string path = job.folder() + "/made.yaml";
  TestProgram& run =
      job.StartTern({"run", path, "--free_ports", "--set", "output_dir=" + job.output_dir(),
                     "--set", "workers.threads=1", "--set", "train.epochs=2"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("test accuracy"));
  EXPECT_TRUE(std::filesystem::exists(job.output_dir() + "/weights.safetensors"));
}

TEST(Init, TrainsOneImageWithOneWorker) {
  TestJob job;
  const std::string folder = WriteFolder(job, 40, 30, 1, [](uint32_t, uint32_t) { return 7; });
  for (const char* image : {"1", "2", "3"})
    std::filesystem::remove(Cat(folder, "/train/class0/", image, ".png"));
  const pb::Job made_job = InitializedJob(&job, folder);
  EXPECT_EQ(made_job.workers().count(), 1u);
  EXPECT_EQ(made_job.train().batch_total(), 1u);
}

TEST(Init, TrainsAFolderOfColoredImages) {
  TestJob job;
  const std::string folder = WriteFolder(job, 40, 30, 2, [](uint32_t label, uint32_t channel) {
    return static_cast<uint8_t>(60 * channel + 100 * label);
  });
  EXPECT_EQ(InitializedJob(&job, folder).model().name(), "resnet20");
  TestProgram& run = job.StartTern({"run", job.folder() + "/made.yaml", "--free_ports", "--set",
                                    "output_dir=" + job.output_dir(), "--set", "workers.threads=1",
                                    "--set", "train.epochs=2"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("test accuracy"));
}

// As large as those of MNIST, but not gray.
TEST(Init, ResizesSmallColoredImages) {
  TestJob job;
  const std::string folder = WriteFolder(job, 28, 28, 2, [](uint32_t label, uint32_t channel) {
    return static_cast<uint8_t>(60 * channel + 100 * label);
  });
  EXPECT_EQ(InitializedJob(&job, folder).data().augmentation().height(), 32u);
}

// One without a header, and one of which only decoding shows the damage.
TEST(Init, LeavesOutDamagedImages) {
  TestJob job;
  const std::string folder = WriteFolder(job, 40, 30, 2, [](uint32_t label, uint32_t channel) {
    return static_cast<uint8_t>(60 * channel + 100 * label);
  });
  std::ofstream(folder + "/train/class0/1.png") << "not an image";
  const std::string cut_image = folder + "/train/class1/2.png", bytes = ReadFile(cut_image);
  std::ofstream(cut_image, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  const pb::Job made_job = InitializedJob(&job, folder);
  EXPECT_EQ(made_job.data().max_corrupt(), 2u);
  EXPECT_THAT(ReadFile(job.folder() + "/made.yaml"), HasSubstr("# Of the pixels of 6 training"));
}

TEST(Init, TakesAPackedFileForItsFolder) {
  TestJob job;
  const std::string packed = job.folder() + "/packed";
  TestProgram& pack = job.StartTern({"convert", "pack", job.data_dir(), packed, "--format", "idx"});
  ASSERT_EQ(pack.Wait(), 0) << pack.err();
  const pb::Job made_job = InitializedJob(&job, packed + "/train.tpk");
  EXPECT_EQ(made_job.data().format(), pb::Data::packed);
  EXPECT_EQ(made_job.data().dir(), packed);
  EXPECT_EQ(made_job.model().name(), "lenet");
}

TEST(Init, NeverOverwritesAFile) {
  TestJob job;
  const std::string before = ReadFile(job.job_file());
  TestProgram& init = job.StartTern({"init", job.data_dir(), "--job", job.job_file()});
  EXPECT_EQ(init.Wait(), 74);
  EXPECT_THAT(init.err(), HasSubstr("saw a file there, and files are never overwritten"));
  EXPECT_EQ(ReadFile(job.job_file()), before);
}

TEST(Init, SaysWhatItExpects) {
  TestJob job;
  const std::string path = job.folder() + "/made.yaml";
  TestProgram& no_folder = job.StartTern({"init", job.folder() + "/none", "--job", path});
  EXPECT_EQ(no_folder.Wait(), 65);
  EXPECT_THAT(no_folder.err(), HasSubstr("saw no images in a known format; expected train/CLASS"));
  std::filesystem::create_directories(job.folder() + "/half/train/cats");
  TestProgram& no_test = job.StartTern({"init", job.folder() + "/half", "--job", path});
  EXPECT_EQ(no_test.Wait(), 65);
  EXPECT_THAT(no_test.err(), HasSubstr("/half/test"));
  TestProgram& no_place =
      job.StartTern({"init", job.data_dir(), "--job", job.folder() + "/none/job.yaml"});
  EXPECT_EQ(no_place.Wait(), 74);
  EXPECT_THAT(no_place.err(), AllOf(HasSubstr("cannot write"), HasSubstr("/none/job.yaml")));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(job.StartTern({"init"}).Wait(), 64);
}

}  // namespace
}  // namespace tern::e2e
