// Tests of the whitening weights, and of `tern whiten`.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/base/text.h"
#include "common/tensors/safetensors.h"
#include "tests/e2e/job_fixture.h"
#include "tests/worker/data/image_files.h"
#include "tools/whiten/whitening.h"

namespace tern::tools {
namespace {

using testing::HasSubstr;

constexpr uint32_t kChannels = 3, kSide = 9, kKernel = 2;

// Images whose pixels depend on each other, and not on each other's means alone.
std::vector<std::vector<float>> DependentImages(int count) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> images;
  for (int i = 0; i < count; ++i) {
    std::vector<float> image(kChannels * kSide * kSide);
    float level = 0.5f;
    for (float& pixel : image) pixel = level = 0.8f * level + normal(random) * 0.5f;
    images.push_back(image);
  }
  return images;
}

// The mean of outputs i and j's product over all patches, of the convolution with these weights.
std::vector<std::vector<double>> OutputMoments(const std::vector<std::vector<float>>& images,
                                               const std::vector<float>& weights, size_t outputs) {
  const size_t elements = kChannels * kKernel * kKernel;
  std::vector<std::vector<double>> moments(outputs, std::vector<double>(outputs));
  double num_patches = 0;
  for (const std::vector<float>& image : images) {
    for (size_t top = 0; top + kKernel <= kSide; ++top) {
      for (size_t left = 0; left + kKernel <= kSide; ++left, ++num_patches) {
        std::vector<double> out(outputs);
        for (size_t o = 0; o < outputs; ++o) {
          for (size_t k = 0; k < elements; ++k) {
            const size_t c = k / 4, y = top + k / 2 % 2, x = left + k % 2;
            out[o] += double{weights[o * elements + k]} * image[(c * kSide + y) * kSide + x];
          }
        }
        for (size_t i = 0; i < outputs; ++i)
          for (size_t j = 0; j < outputs; ++j) moments[i][j] += out[i] * out[j];
      }
    }
  }
  for (auto& row : moments)
    for (double& moment : row) moment /= num_patches;
  return moments;
}

TEST(Whitening, MakesOutputsUncorrelatedAndOfEqualSize) {
  const auto images = DependentImages(40);
  Whitening whitening(kChannels, kKernel);
  for (const auto& image : images) whitening.Add(image, kSide, kSide);
  const uint32_t n = whitening.elements();
  ASSERT_EQ(n, 12u);
  const auto weights = whitening.Weights(2 * n);
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  const auto moments = OutputMoments(images, *weights, n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j)
      EXPECT_NEAR(moments[i][j], i == j ? 1 : 0, i == j ? 0.02 : 1e-5) << i << " " << j;
    // The deviation of a mean square from 1 is epsilon over the eigenvalue, which falls with i.
    if (i > 0) {
      EXPECT_LT(moments[i][i], moments[i - 1][i - 1]);
    }
  }
  for (size_t k = 0; k < size_t{n} * n; ++k) EXPECT_EQ((*weights)[k], -(*weights)[k + n * n]);
  for (size_t o = 0; o < n; ++o) {
    const auto row = weights->begin() + static_cast<ptrdiff_t>(o * n);
    const auto largest =
        std::max_element(row, row + n, [](float a, float b) { return std::abs(a) < std::abs(b); });
    EXPECT_GT(*largest, 0);
  }
  // With fewer outputs, those of the largest eigenvalues.
  const auto four = whitening.Weights(4);
  ASSERT_TRUE(four.ok());
  EXPECT_TRUE(std::equal(four->begin(), four->begin() + 2 * n, weights->begin()));
}

// With a stride of 2, only every second row and column of patches counts: the others are zeros.
TEST(Whitening, TakesThePatchesThatTheLayerTakes) {
  std::vector<float> image = {1, 0, 2,  0,  //
                              0, 0, 0,  0,  //
                              3, 0, -1, 0,  //
                              0, 0, 0,  0};
  Whitening by_two(1, 1, 2), of_four(1, 1);
  by_two.Add(image, 4, 4);
  of_four.Add(std::vector<float>{1, 2, 3, -1}, 2, 2);
  EXPECT_EQ(*by_two.Weights(2), *of_four.Weights(2));
}

TEST(Whitening, RefusesImagesThatSayNothing) {
  Whitening small(1, 5);
  small.Add(std::vector<float>(16, 1.f), 4, 4);
  EXPECT_EQ(small.Weights(2).status().message(), "no image is as large as the kernel");
  Whitening zeros(1, 2);
  zeros.Add(std::vector<float>(16), 4, 4);
  EXPECT_THAT(zeros.Weights(2).status().message(), HasSubstr("all zeros"));
}

// A job with a network whose first layer can be whitened.
constexpr char kNet[] =
    "{net: {layers: [{name: w, conv: {outputs: 8, kernel: 2}}, {name: d, dense: {outputs: 10}}, "
    "{name: loss, softmax_loss: {}}]}}";

TEST(Whiten, WritesTheFileFromWhichTheJobStarts) {
  e2e::TestJob job{{.steps = 2, .model = kNet}};
  const std::string file = job.folder() + "/new/whiten.safetensors";
  const auto start = [&](const std::string& command,
                         const std::string& extra) -> e2e::TestProgram& {
    return job.StartTern({command, job.job_file(), "--set", "model.weights=" + file, "--set",
                          "model.new_tensors=[w.bias, d.*]", "--set", extra});
  };
  e2e::TestProgram& whiten = start("whiten", "train.freeze=[w.weight]");
  ASSERT_EQ(whiten.Wait(), 0) << whiten.err();
  EXPECT_THAT(whiten.out(), HasSubstr(file + ": w.weight, from 240 images"));
  const auto written = tensors::ReadSafetensors(file);
  ASSERT_TRUE(written.ok()) << written.status().message();
  ASSERT_EQ(written->tensors.size(), 1u);
  EXPECT_EQ(written->tensors[0].shape, (std::vector<uint64_t>{8, 1, 2, 2}));
  e2e::TestProgram& run = start("run", "train.freeze=[w.weight]");
  ASSERT_EQ(run.Wait(), 0) << run.err();
  const auto trained = tensors::ReadSafetensors(job.output_dir() + "/weights.safetensors");
  ASSERT_TRUE(trained.ok()) << trained.status().message();
  for (const tensors::Tensor& tensor : trained->tensors) {
    if (tensor.name == "w.weight") {
      EXPECT_EQ(tensor.values, written->tensors[0].values);
    }
  }
  e2e::TestProgram& again = start("whiten", "seed=2");
  EXPECT_EQ(again.Wait(), 64);
  EXPECT_THAT(again.err(), HasSubstr("(model.weights) exists; remove it, or name another file"));
}

// The images of a folder lie class by class: of two images, one is of the second class.
TEST(Whiten, TakesImagesOfAllClasses) {
  e2e::TestJob job{
      {.steps = 2,
       .model = "{classes: 2, net: {layers: [{name: w, conv: {outputs: 8, kernel: 2}}, {name: d, "
                "dense: {outputs: 2}}, {name: loss, softmax_loss: {}}]}}"}};
  const std::string images = job.folder() + "/images";
  for (int i = 0; i < 8; ++i) {
    data::Image image;
    image.Resize(1, 28, 28);
    for (size_t k = 0; i >= 4 && k < image.pixels.size(); ++k)
      image.pixels[k] = static_cast<uint8_t>(7 * k);
    for (const char* split : {"/train", "/test"}) {
      const std::string folder = images + split + (i < 4 ? "/black" : "/pattern");
      std::filesystem::create_directories(folder);
      std::ofstream(Cat(folder, "/", i, ".png"), std::ios::binary) << EncodePng(image);
    }
  }
  e2e::TestProgram& whiten = job.StartTern({"whiten", job.job_file(), "--images", "2", "--set",
                                            "model.weights=" + job.folder() + "/w", "--set",
                                            "data.format=folder", "--set", "data.dir=" + images});
  EXPECT_EQ(whiten.Wait(), 0) << whiten.err();
}

TEST(Whiten, SaysWhatItNeeds) {
  e2e::TestJob lenet{{.steps = 2, .model = kNet}};
  e2e::TestProgram& no_file = lenet.StartTern({"whiten", lenet.job_file()});
  EXPECT_EQ(no_file.Wait(), 78);
  EXPECT_THAT(no_file.err(), HasSubstr("the job has no model.weights"));
  e2e::TestProgram& no_conv = lenet.StartTern(
      {"whiten", lenet.job_file(), "--set", "model.weights=" + lenet.folder() + "/w", "--set",
       "model.net={layers: [{name: d, dense: {outputs: 10}}, {name: loss, softmax_loss: {}}]}"});
  EXPECT_EQ(no_conv.Wait(), 78);
  EXPECT_THAT(no_conv.err(), HasSubstr("layer \"d\" is no convolution; expected a network whose "
                                       "first layer is a convolution of the images"));
  e2e::TestProgram& odd = lenet.StartTern(
      {"whiten", lenet.job_file(), "--set", "model.weights=" + lenet.folder() + "/w", "--set",
       "model.net={layers: [{name: c, conv: {outputs: 10, kernel: 2}}, {name: d, dense: {outputs: "
       "10}}, {name: loss, softmax_loss: {}}]}"});
  EXPECT_EQ(odd.Wait(), 78);
  EXPECT_THAT(odd.err(), HasSubstr("has 10 outputs, not an even number of at most 8"));
}

}  // namespace
}  // namespace tern::tools
