// `tern classify` with real images and the weights of a job that has learned them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"
#include "tests/worker/data/image_files.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void WriteBytes(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// An image of one gray value.
data::Image Gray(uint8_t value, uint32_t side) {
  data::Image image;
  image.Resize(1, side, side);
  image.pixels.assign(image.pixels.size(), value);
  return image;
}

// Two classes of images: dark and light.
void WriteDarkAndLight(const std::string& folder) {
  for (const std::string split : {"train", "test"}) {
    for (uint8_t i = 0; i < 8; ++i) {
      WriteBytes(Cat(folder, "/", split, "/dark/", int{i}, ".png"), EncodePng(Gray(i, 28)));
      WriteBytes(Cat(folder, "/", split, "/light/", int{i}, ".jpg"),
                 EncodeJpeg(Gray(static_cast<uint8_t>(240 + i), 30)));
    }
  }
}

class Classify : public testing::Test {
 protected:
  // Trains LeNet on the two classes.
  void SetUp() override {
    WriteDarkAndLight(images_);
    std::vector<std::string> arguments = {"run", job_.job_file()};
    arguments.insert(arguments.end(), settings_.begin(), settings_.end());
    TestProgram& run = job_.StartTern(arguments);
    ASSERT_EQ(run.Wait(), 0) << run.err();
  }

  TestProgram& Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"classify", job_.job_file()});
    arguments.insert(arguments.end(), settings_.begin(), settings_.end());
    return job_.StartTern(arguments);
  }
  std::string weights() const { return job_.output_dir() + "/weights.safetensors"; }
  std::string Image(const std::string& name) const { return images_ + "/" + name; }

  TestJob job_{{.steps = 30, .model = "{name: lenet, classes: 2}"}};
  const std::string images_ = job_.folder() + "/images";
  const std::vector<std::string> settings_ = {
      "--set", "data.format=folder",          "--set", "data.dir=" + images_,
      "--set", "data.augmentation.height=28", "--set", "data.augmentation.width=28"};
};

TEST_F(Classify, PrintsTheClassOfEachImageByName) {
  TestProgram& classify =
      Start({"--weights", weights(), Image("test/dark/3.png"), Image("test/light/5.jpg")});
  EXPECT_EQ(classify.Wait(), 0) << classify.err();
  EXPECT_THAT(classify.out(),
              AllOf(HasSubstr(Image("test/dark/3.png") + ": dark "),
                    HasSubstr(Image("test/light/5.jpg") + ": light "), Not(HasSubstr(", "))));
  EXPECT_EQ(classify.err(), "");
}

TEST_F(Classify, PrintsTheBestClassesWithProbabilitiesThatAddUpTo1) {
  TestProgram& classify = Start({"--top", "9", "--weights", weights(), Image("test/dark/3.png")});
  EXPECT_EQ(classify.Wait(), 0) << classify.err();
  double dark = 0, light = 0;
  const std::string out = classify.out();
  const std::string figures = out.substr(std::min(out.size(), Image("test/dark/3.png").size()));
  ASSERT_EQ(std::sscanf(figures.c_str(), ": dark %lf, light %lf", &dark, &light), 2) << out;
  EXPECT_NEAR(dark + light, 1, 2e-4);
  EXPECT_GE(dark, light);
}

// The names come from classes.txt beside the weights; without it and without data, there are none.
TEST_F(Classify, NeedsNoTestSet) {
  fs::rename(Image("test"), job_.folder() + "/moved");
  fs::remove_all(Image("train"));
  const std::string image = job_.folder() + "/moved/light/1.jpg";
  TestProgram& named = Start({"--weights", weights(), image});
  EXPECT_EQ(named.Wait(), 0) << named.err();
  EXPECT_THAT(named.out(), HasSubstr(": light "));
  fs::remove(job_.output_dir() + "/classes.txt");
  TestProgram& numbered = Start({"--weights", weights(), image});
  EXPECT_EQ(numbered.Wait(), 0) << numbered.err();
  EXPECT_THAT(numbered.out(), HasSubstr(": 1 "));
}

// The views of the job's evaluation: images and their mirror images differ by one view, and agree
// by the mean of both views. Each half of an image is black; some are between dark and light.
TEST_F(Classify, ShowsTheViewsOfTheEvaluation) {
  std::vector<std::string> lefts, rights;
  for (int level = 20; level <= 250; level += 10) {
    data::Image left = Gray(0, 28), right = Gray(0, 28);
    for (size_t i = 0; i < left.pixels.size(); ++i)
      (i % 28 < 14 ? left : right).pixels[i] = static_cast<uint8_t>(level);
    lefts.push_back(Cat(Image("left/"), level, ".png"));
    rights.push_back(Cat(Image("right/"), level, ".png"));
    WriteBytes(lefts.back(), EncodePng(left));
    WriteBytes(rights.back(), EncodePng(right));
  }
  const auto lines = [&](std::vector<std::string> images, const std::string& views) {
    images.insert(images.begin(),
                  {"--weights", weights(), "--top", "2", "--set", "evaluation.views=" + views});
    TestProgram& classify = Start(images);
    EXPECT_EQ(classify.Wait(), 0) << classify.err();
    return classify.out();
  };
  const auto without_folder = [](const std::string& text, const std::string& folder) {
    return std::regex_replace(text, std::regex("/" + folder + "/"), "/");
  };
  EXPECT_NE(without_folder(lines(lefts, "one"), "left"),
            without_folder(lines(rights, "one"), "right"));
  EXPECT_EQ(without_folder(lines(lefts, "mirrored"), "left"),
            without_folder(lines(rights, "mirrored"), "right"));
}

TEST_F(Classify, AnUnreadableImageDoesNotStopTheOthers) {
  const std::string text = Image("a.png"), small = Image("small.png");
  WriteBytes(text, "not an image");
  WriteBytes(small, EncodePng(Gray(0, 5)));
  TestProgram& classify = Start({"--weights", weights(), text, Image("nowhere.png"), small, images_,
                                 Image("test/dark/3.png")});
  EXPECT_EQ(classify.Wait(), 65);
  EXPECT_THAT(classify.out(), HasSubstr(Image("test/dark/3.png") + ": dark "));
  EXPECT_THAT(classify.err(),
              AllOf(HasSubstr(text + ": neither JPEG nor PNG"), HasSubstr("nowhere.png"),
                    HasSubstr(small + ": "), HasSubstr("a JPEG or PNG image"),
                    HasSubstr("4 of 5 images could not be classified")));
}

TEST_F(Classify, RefusesWhatItCannotUse) {
  const auto expect_refused = [&](const std::vector<std::string>& arguments, int code,
                                  const std::string& sentence) {
    TestProgram& classify = Start(arguments);
    EXPECT_EQ(classify.Wait(), code);
    EXPECT_THAT(classify.err(), HasSubstr(sentence));
    EXPECT_EQ(classify.out(), "");
  };
  const std::string image = Image("test/dark/3.png");
  expect_refused({image}, 64, "--weights FILE is missing");
  expect_refused({"--weights", weights()}, 64, "IMAGE is missing");
  expect_refused({"--weights", weights(), "--top", "0", image}, 64, "--top: saw 0");
  expect_refused({"--weights", image, image}, 65, image);
  expect_refused({"--weights", weights(), image, "--set", "model.classes=3"}, 65, "logits");
  expect_refused({"--weights", weights(), image, "--set", "model.name=lenett"}, 78, "lenet");
}

}  // namespace
}  // namespace tern::e2e
