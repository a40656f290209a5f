#include "worker/data/augment.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "kernels/codes/philox.h"
#include "tests/worker/data/idx_files.h"
#include "tests/worker/data/image_files.h"

namespace tern::data {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSeed = 7;

Augmenter Make(const std::string& words, Split split = Split::kTrain, uint32_t channels = 3) {
  auto augmenter = Augmenter::Make(DataOf(words), kSeed, split, channels);
  EXPECT_TRUE(augmenter.ok()) << augmenter.status().message();
  return std::move(*augmenter);
}

std::vector<float> Apply(const Augmenter& augmenter, const Image& image,
                         const Augmenter::SampleId& sample_id = {}) {
  const auto size = augmenter.OutputOf({image.height, image.width});
  EXPECT_TRUE(size.ok()) << size.status().message();
  std::vector<float> out(uint64_t{image.channels} * size->height * size->width);
  Augmenter::Workspace workspace;
  augmenter.Apply(image, sample_id, &workspace, out.data());
  return out;
}

// Draws and Reference are a simple implementation of the augmentation in double precision, to
// compare with. Draws has the random numbers of one image.
struct Draws {
  Augmenter::SampleId sample_id;
  double Word(uint32_t block, int word) const {
    return kernels::NoiseBlock({.seed = kSeed,
                                .stream = kernels::NoiseStream::kAugmentation,
                                .rank = 0,
                                .round = sample_id.epoch,
                                .tensor = static_cast<uint32_t>(sample_id.index)},
                               block, 0)[static_cast<size_t>(word)] /
           4294967296.0;
  }
};

struct Reference {
  uint32_t height, width, pad = 0;
  bool random_crop = false, mirror = false, standardize = false;
  double brightness = 0, contrast_min = 1, contrast_max = 1;
  std::vector<double> mean = {}, deviation = {};

  std::vector<double> Augment(const Image& image, const Augmenter::SampleId& sample_id) const {
    const Draws draws{sample_id};
    const auto begin = [&](uint32_t side, uint32_t part, int word) {
      const int room = static_cast<int>(side + 2 * pad - part);
      return (random_crop ? static_cast<int>(draws.Word(0, word) * (room + 1)) : room / 2) -
             static_cast<int>(pad);
    };
    const int top = begin(image.height, height, 1), left = begin(image.width, width, 2);
    const bool flipped = mirror && draws.Word(0, 0) >= 0.5;
    std::vector<double> out;
    for (uint32_t c = 0; c < image.channels; ++c) {
      for (int y = top; y < top + static_cast<int>(height); ++y) {
        for (int i = 0; i < static_cast<int>(width); ++i) {
          const int x = left + (flipped ? static_cast<int>(width) - 1 - i : i);
          const bool inside = y >= 0 && y < static_cast<int>(image.height) && x >= 0 &&
                              x < static_cast<int>(image.width);
          const uint64_t at =
              (uint64_t{c} * image.height + static_cast<uint32_t>(y)) * image.width +
              static_cast<uint32_t>(x);
          const double pixel = inside ? image.pixels[at] : 0;
          const double lighter = (2 * draws.Word(0, 3) - 1) * brightness;
          out.push_back(brightness > 0 ? std::clamp(pixel + lighter, 0.0, 255.0) : pixel);
        }
      }
    }
    Finish(draws, image.channels, &out);
    return out;
  }

  void Finish(const Draws& draws, uint32_t channels, std::vector<double>* out) const {
    const size_t plane = out->size() / channels;
    const double contrast = contrast_min + draws.Word(1, 0) * (contrast_max - contrast_min);
    for (uint32_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (size_t i = 0; i < plane; ++i) sum += (*out)[c * plane + i];
      for (size_t i = 0; i < plane; ++i) {
        double& value = (*out)[c * plane + i];
        value = ((value - sum / plane) * contrast + sum / plane) / 255;
        if (!mean.empty()) value = (value - mean[c]) / deviation[c];
      }
    }
    if (!standardize) return;
    double sum = 0, squares = 0;
    const auto n = static_cast<double>(out->size());
    for (const double value : *out) sum += value;
    for (const double value : *out) squares += (value - sum / n) * (value - sum / n);
    for (double& value : *out)
      value = (value - sum / n) / std::max(std::sqrt(squares / n), 1 / std::sqrt(n));
  }
};

void ExpectNear(const std::vector<float>& seen, const std::vector<double>& expected) {
  ASSERT_EQ(seen.size(), expected.size());
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_NEAR(seen[i], expected[i], 2e-5) << i;
}

void ExpectReference(const std::string& words, const Reference& reference) {
  const Augmenter augmenter = Make(words);
  for (uint64_t sample = 0; sample < 40; ++sample) {
    const Image image = Picture(3, 17, 21, static_cast<uint32_t>(sample));
    const Augmenter::SampleId sample_id{sample % 3, sample * 1000};
    ExpectNear(Apply(augmenter, image, sample_id), reference.Augment(image, sample_id));
  }
}

TEST(Augmenter, MatchesTheReference) {
  ExpectReference("augmentation { height: 12 width: 10 }", {.height = 12, .width = 10});
  ExpectReference("augmentation { pad: 4 random_crop: true mirror: true }",
                  {.height = 17, .width = 21, .pad = 4, .random_crop = true, .mirror = true});
  ExpectReference(
      "standardize: true augmentation { height: 12 width: 10 pad: 2 random_crop: true mirror: true "
      "brightness: 63 contrast_min: 0.2 contrast_max: 1.8 }",
      {.height = 12,
       .width = 10,
       .pad = 2,
       .random_crop = true,
       .mirror = true,
       .standardize = true,
       .brightness = 63,
       .contrast_min = 0.2,
       .contrast_max = 1.8});
  ExpectReference(
      "mean: [0.4, 0.5, 0.6] std: [0.2, 0.25, 0.3] augmentation { height: 30 width: 30 pad: "
      "7 "
      "contrast_min: 0.5 }",
      {.height = 30,
       .width = 30,
       .pad = 7,
       .contrast_min = 0.5,
       .mean = {0.4, 0.5, 0.6},
       .deviation = {0.2, 0.25, 0.3}});
}

TEST(Augmenter, WithoutOptionsMapsPixelsExactly) {
  Image image;
  image.Resize(1, 1, 3);
  image.pixels = {0, 51, 255};
  EXPECT_EQ(Apply(Make("", Split::kTrain, 1), image), (std::vector<float>{0.f, 51 / 255.f, 1.f}));
  EXPECT_EQ(Apply(Make("scale: 2 offset: -1", Split::kTrain, 1), image),
            (std::vector<float>{-1.f, 51 / 255.f * 2.f - 1.f, 1.f}));
  EXPECT_EQ(Apply(Make("mean: 0.5 std: 0.25", Split::kTrain, 1), image),
            (std::vector<float>{-2.f, (51 / 255.f - 0.5f) / 0.25f, 2.f}));
}

TEST(Augmenter, EvaluationUsesOnlyTheSizes) {
  const Image image = Picture(3, 17, 21);
  const auto seen = Apply(
      Make("augmentation { height: 12 width: 10 pad: 4 random_crop: true mirror: true brightness: "
           "63 contrast_min: 0.2 contrast_max: 1.8 }",
           Split::kTest),
      image, {5, 5});
  ExpectNear(seen, Reference{.height = 12, .width = 10}.Augment(image, {}));
}

TEST(Augmenter, MirrorsHalfTheTimeAndCropsUniformly) {
  const Augmenter augmenter =
      Make("augmentation { pad: 4 random_crop: true mirror: true }", Split::kTrain, 1);
  Image image;
  image.Resize(1, 32, 32);
  std::fill(image.pixels.begin(), image.pixels.end(), 0);
  image.pixels[16 * 32 + 8] = 255;  // the position of this pixel reveals the draws
  constexpr int kImages = 16200;
  std::vector<int> rows(32), columns(32);
  int mirrored = 0;
  for (uint64_t sample = 0; sample < kImages; ++sample) {
    const auto out = Apply(augmenter, image, {3, sample});
    const auto at = std::max_element(out.begin(), out.end()) - out.begin();
    ++rows[static_cast<size_t>(at / 32)];
    ++columns[static_cast<size_t>(at % 32)];
    if (at % 32 > 16) ++mirrored;
  }
  EXPECT_NEAR(mirrored, kImages / 2, 4 * std::sqrt(kImages / 4));
  for (size_t row = 12; row <= 20; ++row) EXPECT_NEAR(rows[row], kImages / 9, 160) << row;
  for (size_t x = 4; x <= 12; ++x) {
    EXPECT_NEAR(columns[x], kImages / 18, 120) << x;
    EXPECT_NEAR(columns[31 - x], kImages / 18, 120) << x;
  }
}

TEST(Augmenter, DependsOnlyOnEpochSampleAndSeed) {
  const std::string words = "augmentation { pad: 8 random_crop: true mirror: true }";
  const Image image = Picture(3, 32, 32);
  const auto first = Apply(Make(words), image, {0, 1});
  EXPECT_EQ(Apply(Make(words), image, {0, 1}), first);
  EXPECT_NE(Apply(Make(words), image, {1, 1}), first);
  EXPECT_NE(Apply(Make(words), image, {0, 2}), first);
  EXPECT_NE(Apply(*Augmenter::Make(DataOf(words), kSeed + 1, Split::kTrain, 3), image, {0, 1}),
            first);
}

TEST(Augmenter, StandardizesAFlatImageToZeros) {
  Image image;
  image.Resize(3, 4, 4);
  std::fill(image.pixels.begin(), image.pixels.end(), 200);
  for (const float value : Apply(Make("standardize: true"), image)) EXPECT_NEAR(value, 0, 1e-5);
}

// On an image of ramps, the values reveal the crop.
TEST(Augmenter, RandomResizedCropKeepsAreaAndAspectInRange) {
  const Augmenter augmenter = Make(
      "augmentation { random_resized_crop: true height: 2 width: 2 area_min: 0.25 area_max: 0.5 }",
      Split::kTrain, 1);
  Image across, down;
  across.Resize(1, 200, 200);
  down.Resize(1, 200, 200);
  for (size_t y = 0; y < 200; ++y) {
    for (size_t x = 0; x < 200; ++x) {
      across.pixels[y * 200 + x] = static_cast<uint8_t>(x);
      down.pixels[y * 200 + x] = static_cast<uint8_t>(y);
    }
  }
  double area = 0, aspect = 0, smallest = 1, largest = 0;
  constexpr int kImages = 400;
  for (uint64_t sample = 0; sample < kImages; ++sample) {
    const auto x = Apply(augmenter, across, {0, sample}), y = Apply(augmenter, down, {0, sample});
    // With two output pixels, the difference of their means on a ramp is a fixed share of the side
    // (antialiasing).
    const double width = 255 * (x[1] - x[0]) * 2, height = 255 * (y[2] - y[0]) * 2;
    const double part = width * height / 40000;
    smallest = std::min(smallest, part);
    largest = std::max(largest, part);
    area += part / kImages;
    aspect += std::log(width / height) / kImages;
  }
  EXPECT_NEAR(largest / smallest, 2, 0.12);
  EXPECT_NEAR(area / smallest, 1.5, 0.06);
  EXPECT_NEAR(aspect, 0, 0.03);
}

TEST(Augmenter, RandomResizedCropOfAStripFallsBackToItsMiddle) {
  const Augmenter augmenter =
      Make("augmentation { random_resized_crop: true height: 3 width: 3 area_min: 1 }",
           Split::kTrain, 1);
  Image strip;
  strip.Resize(1, 2, 90);
  for (size_t i = 0; i < strip.pixels.size(); ++i) strip.pixels[i] = static_cast<uint8_t>(i % 90);
  for (const float value : Apply(augmenter, strip)) EXPECT_NEAR(value * 255, 44.5, 2.5);
}

TEST(Augmenter, ScalesTheShorterSideFirst) {
  const Augmenter augmenter = Make("augmentation { resize_shorter: 8 }");
  for (const auto& [from, to] : {std::pair{Size{16, 32}, Size{8, 16}},
                                 {Size{30, 20}, Size{12, 8}},
                                 {Size{4, 4}, Size{8, 8}},
                                 {Size{8, 9}, Size{8, 9}}}) {
    EXPECT_EQ(*augmenter.OutputOf(from), to);
  }
  const Augmenter crop = Make("augmentation { resize_shorter: 8 height: 8 width: 8 }");
  EXPECT_EQ(*crop.OutputOf({333, 500}), (Size{8, 8}));
}

TEST(Augmenter, RefusesACropThatIsTooLarge) {
  const auto size = Make("augmentation { height: 24 width: 24 }").OutputOf({24, 20});
  EXPECT_EQ(size.status().code(), Code::kBadData);
  EXPECT_THAT(size.status().message(), HasSubstr("20 x 24 pixels before the crop, smaller than the "
                                                 "crop of 24 x 24; set data.augmentation."));
  EXPECT_TRUE(Make("augmentation { height: 24 width: 24 pad: 2 }").OutputOf({24, 20}).ok());
  EXPECT_FALSE(
      Make("augmentation { height: 24 width: 24 pad: 2 }", Split::kTest).OutputOf({24, 20}).ok());
  EXPECT_THAT(Make("augmentation { resize_shorter: 60000 }").OutputOf({2, 2}).status().message(),
              HasSubstr("too many"));
}

TEST(Augmenter, RefusesOptionsThatDoNotFitTheImages) {
  const auto sentence = [](const std::string& words) {
    return Augmenter::Make(DataOf(words), 1, Split::kTrain, 3).status().message();
  };
  EXPECT_THAT(sentence("mean: 0.5 std: 0.5"), HasSubstr("data.mean has 1 values"));
  EXPECT_THAT(sentence("mean: [1, 2, 3]"), HasSubstr("data.std has 0 values"));
  EXPECT_THAT(sentence("augmentation { random_resized_crop: true }"),
              HasSubstr("without height and width"));
}

}  // namespace
}  // namespace tern::data
