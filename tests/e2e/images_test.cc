// Tests of image folders, and of the packed files that `tern convert pack` makes of them, in real
// processes: conversion, and training with several threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/e2e/job_fixture.h"
#include "tests/worker/data/image_files.h"

namespace tern::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kNet[] = R"({net: {input: {channels: 3, height: 12, width: 12}, classes: 3, layers: [
    {name: conv, conv: {outputs: 4, kernel: 3, stride: 2}},
    {name: active, relu: {}},
    {name: scores, dense: {outputs: 3}},
    {name: loss, softmax_loss: {}}]}})";

// Writes JPEG and PNG files of several sizes to the folders train/CLASS and test/CLASS of a new
// folder. Returns the path of the new folder.
std::string WriteImageFolder(const TestJob& job) {
  const std::string images_folder = job.folder() + "/images";
  for (const char* split : {"train", "test"}) {
    for (uint32_t label = 0; label < 3; ++label) {
      const std::string folder = images_folder + "/" + split + "/class" + std::to_string(label);
      std::filesystem::create_directories(folder);
      for (uint32_t i = 0; i < 12; ++i) {
        const data::Image image = data::MakePicture(3, 14 + i % 5, 20 - i % 3, 40 * label + i);
        const bool is_jpeg = i % 3 != 0;
        std::ofstream(folder + "/" + std::to_string(i) + (is_jpeg ? ".jpg" : ".png"),
                      std::ios::binary)
            << (is_jpeg ? data::EncodeJpeg(image) : data::EncodePng(image));
      }
    }
  }
  return images_folder;
}

// Its header stays valid.
void CutFileInHalf(const std::string& path) {
  const std::string bytes = ReadFile(path);
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
}

std::vector<std::string> DataArguments(const std::string& format, const std::string& dir,
                                       const std::string& threads) {
  std::vector<std::string> arguments;
  for (const std::string& setting :
       {"data.format=" + format, "data.dir=" + dir, "data.threads=" + threads,
        std::string("data.standardize=true"), std::string("data.augmentation.resize_shorter=14"),
        std::string("data.augmentation.height=12"), std::string("data.augmentation.width=12"),
        std::string("data.augmentation.pad=2"), std::string("data.augmentation.random_crop=true"),
        std::string("data.augmentation.mirror=true"),
        std::string("data.augmentation.brightness=30"), std::string("data.max_corrupt=1")}) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  return arguments;
}

TEST(Images, GiveTheSameWeightsFromAFolderAndPackedWithAnyNumberOfThreads) {
  std::string weights;
  for (const char* threads : {"1", "3"}) {
    TestJob job(
        {.steps = 12, .model = kNet, .yaml = "evaluation: {every_steps: 6, confusion: true}\n"});
    const std::string images_folder = WriteImageFolder(job),
                      packed_folder = job.folder() + "/packed";
    TestProgram& pack_program = job.StartTern({"convert", "pack", images_folder, packed_folder});
    ASSERT_EQ(pack_program.Wait(), 0) << pack_program.err();
    EXPECT_THAT(pack_program.out(), AllOf(HasSubstr("100 %  36 of 36 images"),
                                          HasSubstr("train.tpk: 36 images in 3 classes")));
    for (const bool is_packed : {false, true}) {
      job.StartAll(DataArguments(is_packed ? "packed" : "folder",
                                 is_packed ? packed_folder : images_folder, threads));
      job.ExpectAllEnd(0);
      EXPECT_THAT(job.Log("worker", 0), HasSubstr("36 training images in 3 classes"));
      if (weights.empty()) weights = job.Weights();
      EXPECT_EQ(job.OutputBytes("classes.txt"), "class0\nclass1\nclass2\n");
      EXPECT_THAT(job.OutputBytes("confusion.csv"),
                  HasSubstr("true,class0,class1,class2\nclass0,"));
      EXPECT_EQ(job.Weights(), weights) << threads << " threads, packed: " << is_packed;
    }
  }
}

TEST(Images, DamagedOnesAreNamedAndLeftOutUpToTheLimit) {
  TestJob job({.steps = 4, .model = kNet});
  const std::string images_folder = WriteImageFolder(job),
                    damaged_file = images_folder + "/train/class1/3.png";
  CutFileInHalf(damaged_file);
  job.StartAll(DataArguments("folder", images_folder, "2"));
  job.ExpectAllEnd(0);
  TestProgram& refused_pack =
      job.StartTern({"convert", "pack", images_folder, job.folder() + "/packed"});
  EXPECT_EQ(refused_pack.Wait(), 65);
  EXPECT_THAT(refused_pack.err(),
              AllOf(HasSubstr(damaged_file + ": damaged PNG"),
                    HasSubstr("allowed: 0; replace them, or raise --max_corrupt")));
  EXPECT_FALSE(std::filesystem::exists(job.folder() + "/packed/train.tpk"));
  TestProgram& accepted_pack = job.StartTern(
      {"convert", "pack", images_folder, job.folder() + "/packed", "--max_corrupt", "1"});
  EXPECT_EQ(accepted_pack.Wait(), 0) << accepted_pack.err();
  EXPECT_THAT(accepted_pack.out(),
              AllOf(HasSubstr("left out, damaged image 1 of at most 1: " + damaged_file),
                    HasSubstr("35 images in 3 classes")));
  std::ofstream(images_folder + "/train/class0/3.png", std::ios::binary) << "";
  std::ofstream(images_folder + "/train/class2/1.jpg", std::ios::binary) << "<html>";
  TestProgram& worker = job.StartWorker(0, DataArguments("folder", images_folder, "2"));
  EXPECT_EQ(worker.Wait(), 65);
  EXPECT_THAT(worker.err(), AllOf(HasSubstr("class2/1.jpg: neither JPEG nor PNG"),
                                  HasSubstr("damaged images so far: 2, allowed: 1")));
}

// Some damage is detected only when the image is decoded. If there are then more damaged images
// than data.max_corrupt allows, the worker that decodes the image ends, and so does the whole job,
// even if faults.on_worker_loss is `wait`.
TEST(Images, OneDamagedImageTooManyEndsTheJobWhileItTrains) {
  TestJob job({.steps = 100000, .model = kNet, .yaml = "faults: {on_worker_loss: wait}\n"});
  const std::string images_folder = WriteImageFolder(job),
                    damaged_file = images_folder + "/train/class1/3.png";
  CutFileInHalf(damaged_file);
  std::vector<std::string> arguments = DataArguments("folder", images_folder, "2");
  arguments.insert(arguments.end(), {"--set", "data.max_corrupt=0"});
  job.StartAll(arguments);
  job.ExpectAllEnd(65);
  for (TestProgram* program : {&job.worker(0), &job.worker(1), &job.server(0)})
    EXPECT_THAT(program->err(), HasSubstr(damaged_file + ": damaged PNG"));
}

// Test images are decoded after the last step. A job that the damage ends has its weights, and goes
// on from its checkpoints once more damage is allowed.
TEST(Images, ADamagedTestImageDoesNotCostTheWeights) {
  TestJob job({.steps = 4, .model = kNet, .yaml = "checkpoints: {every_steps: 2}\n"});
  const std::string images_folder = WriteImageFolder(job);
  CutFileInHalf(images_folder + "/test/class2/3.png");
  std::vector<std::string> arguments = DataArguments("folder", images_folder, "2");
  arguments.insert(arguments.end(), {"--set", "data.max_corrupt=0"});
  job.StartAll(arguments);
  job.ExpectAllEnd(65);
  EXPECT_THAT(job.worker(0).err(),
              AllOf(HasSubstr(") ended the job: the weights are written, but their last "
                              "evaluation has failed: "),
                    HasSubstr("class2/3.png: damaged PNG"), HasSubstr("raise data.max_corrupt")));
  const std::string weights = job.Weights();
  EXPECT_FALSE(weights.empty());
  job.StartAll(DataArguments("folder", images_folder, "2"));
  job.ExpectAllEnd(0);
  EXPECT_THAT(job.Log("worker", 0),
              AllOf(HasSubstr("data.max_corrupt was 0, is now 1"), HasSubstr("of 35 (")));
  EXPECT_EQ(job.Weights(), weights);
}

TEST(Images, AWorkerWhoseTestImagesAreAllDamagedEvaluatesNone) {
  TestJob job({.steps = 4, .model = kNet});
  const std::string test_folder = WriteImageFolder(job) + "/test";
  for (const char* label : {"0", "1", "2"}) {
    for (uint32_t i = 0; i < 12; ++i) {
      const std::string path = test_folder + "/class" + label + "/" + std::to_string(i);
      std::filesystem::remove(path + ".jpg");
      if (i % 3 == 0 && *label != '0') CutFileInHalf(path + ".png");
    }
  }
  std::vector<std::string> arguments = DataArguments("folder", job.folder() + "/images", "2");
  arguments.insert(arguments.end(), {"--set", "data.max_corrupt=8"});
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("of 4 ("));
}

TEST(Images, ConvertListsItsFormats) {
  TestJob job;
  TestProgram& convert_without_kind = job.StartTern({"convert"});
  EXPECT_EQ(convert_without_kind.Wait(), 64);
  EXPECT_THAT(convert_without_kind.err(),
              HasSubstr("tern convert needs a word after it; known: pack, onnx"));
  TestProgram& unknown_format = job.StartTern({"convert", "pack", "a", "b", "--format", "packed"});
  EXPECT_EQ(unknown_format.Wait(), 64);
  EXPECT_THAT(unknown_format.err(), HasSubstr("--format: saw 'packed'; allowed: folder, cifar10"));
  TestProgram& missing_folder = job.StartTern({"convert", "pack", "/does/not/exist", job.folder()});
  EXPECT_EQ(missing_folder.Wait(), 65);
  EXPECT_THAT(missing_folder.err(), HasSubstr("/does/not/exist/train: cannot be listed"));
  // Packs IDX files, which store images as pixels.
  TestProgram& idx_pack =
      job.StartTern({"convert", "pack", job.data_dir(), job.folder() + "/p", "--format=idx"});
  ASSERT_EQ(idx_pack.Wait(), 0) << idx_pack.err();
  job.StartAll({"--set", "data.format=packed", "--set", "data.dir=" + job.folder() + "/p", "--set",
                "train.steps=2"});
  job.ExpectAllEnd(0);
}

}  // namespace
}  // namespace tern::e2e
