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

Augmenter MakeAugmenter(const std::string& data_text, Split split = Split::kTrain,
                        uint32_t channels = 3) {
  auto augmenter = Augmenter::Make(ParseData(data_text), kSeed, split, channels);
  EXPECT_TRUE(augmenter.ok()) << augmenter.status().message();
  return std::move(*augmenter);
}

std::vector<float> AugmentImage(const Augmenter& augmenter, const Image& image,
                                const Augmenter::SampleId& sample_id = {}) {
  const auto output_size = augmenter.OutputSizeOf({image.height, image.width});
  EXPECT_TRUE(output_size.ok()) << output_size.status().message();
  std::vector<float> out(uint64_t{image.channels} * output_size->height * output_size->width);
  Augmenter::Workspace workspace;
  augmenter.Apply(image, sample_id, &workspace, out.data());
  return out;
}

// The random numbers with which Augmenter augments one image.
struct RandomNumbers {
  Augmenter::SampleId sample_id;
  double UniformFor(uint32_t block, int word_index) const {
    return kernels::NoiseBlock({.seed = kSeed,
                                .stream = kernels::NoiseStream::kAugmentation,
                                .rank = 0,
                                .round = sample_id.epoch,
                                .tensor = static_cast<uint32_t>(sample_id.index)},
                               block, 0)[static_cast<size_t>(word_index)] /
           4294967296.0;
  }
};

// A simple implementation of the augmentation in double precision, to compare Augmenter with.
struct ReferenceAugmenter {
  uint32_t height, width, pad_pixels = 0;
  bool random_crop = false, mirror = false, standardize = false;
  double brightness = 0, contrast_min = 1, contrast_max = 1;
  std::vector<double> mean = {}, deviation = {};
  bool reflects = false, mirrors_in_turn = false;

  std::vector<double> Augment(const Image& image, const Augmenter::SampleId& sample_id) const {
    const RandomNumbers numbers{sample_id};
    const auto first_position_of = [&](uint32_t side, uint32_t crop_side, int word_index) {
      const int free_pixels = static_cast<int>(side + 2 * pad_pixels - crop_side);
      return (random_crop ? static_cast<int>(numbers.UniformFor(0, word_index) * (free_pixels + 1))
                          : free_pixels / 2) -
             static_cast<int>(pad_pixels);
    };
    const int top_row = first_position_of(image.height, height, 1),
              left_column = first_position_of(image.width, width, 2);
    bool is_mirrored = mirror && numbers.UniformFor(0, 0) >= 0.5;
    if (mirrors_in_turn) {
      const RandomNumbers first_epoch{{0, sample_id.index}};
      is_mirrored = (first_epoch.UniformFor(0, 0) >= 0.5) == (sample_id.epoch % 2 == 0);
    }
    const auto reflected = [&](int position, uint32_t side) {
      const int last = static_cast<int>(side) - 1;
      return reflects ? last - std::abs(last - std::abs(position)) : position;
    };
    std::vector<double> out;
    for (uint32_t c = 0; c < image.channels; ++c) {
      for (int row = top_row; row < top_row + static_cast<int>(height); ++row) {
        const int y = reflected(row, image.height);
        for (int i = 0; i < static_cast<int>(width); ++i) {
          const int x = reflected(left_column + (is_mirrored ? static_cast<int>(width) - 1 - i : i),
                                  image.width);
          const bool is_inside = y >= 0 && y < static_cast<int>(image.height) && x >= 0 &&
                                 x < static_cast<int>(image.width);
          const uint64_t index =
              (uint64_t{c} * image.height + static_cast<uint32_t>(y)) * image.width +
              static_cast<uint32_t>(x);
          const double pixel = is_inside ? image.pixels[index] : 0;
          const double brightness_change = (2 * numbers.UniformFor(0, 3) - 1) * brightness;
          out.push_back(brightness > 0 ? std::clamp(pixel + brightness_change, 0.0, 255.0) : pixel);
        }
      }
    }
    ScaleAndStandardize(numbers, image.channels, &out);
    return out;
  }

  void ScaleAndStandardize(const RandomNumbers& numbers, uint32_t channels,
                           std::vector<double>* out) const {
    const size_t plane_pixels = out->size() / channels;
    const double contrast = contrast_min + numbers.UniformFor(1, 0) * (contrast_max - contrast_min);
    for (uint32_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (size_t i = 0; i < plane_pixels; ++i) sum += (*out)[c * plane_pixels + i];
      for (size_t i = 0; i < plane_pixels; ++i) {
        double& value = (*out)[c * plane_pixels + i];
        value = ((value - sum / plane_pixels) * contrast + sum / plane_pixels) / 255;
        if (!mean.empty()) value = (value - mean[c]) / deviation[c];
      }
    }
    if (!standardize) return;
    double sum = 0, sum_of_squares = 0;
    const auto n = static_cast<double>(out->size());
    for (const double value : *out) sum += value;
    for (const double value : *out) sum_of_squares += (value - sum / n) * (value - sum / n);
    for (double& value : *out)
      value = (value - sum / n) / std::max(std::sqrt(sum_of_squares / n), 1 / std::sqrt(n));
  }
};

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-5) << i;
}

void ExpectSameAsReference(const std::string& data_text, const ReferenceAugmenter& reference) {
  const Augmenter augmenter = MakeAugmenter(data_text);
  for (uint64_t sample = 0; sample < 40; ++sample) {
    const Image image = MakePicture(3, 17, 21, static_cast<uint32_t>(sample));
    const Augmenter::SampleId sample_id{sample % 3, sample * 1000};
    ExpectNear(AugmentImage(augmenter, image, sample_id), reference.Augment(image, sample_id));
  }
}

TEST(Augmenter, MatchesTheReference) {
  ExpectSameAsReference("augmentation { height: 12 width: 10 }", {.height = 12, .width = 10});
  ExpectSameAsReference(
      "augmentation { pad: 4 random_crop: true mirror: true }",
      {.height = 17, .width = 21, .pad_pixels = 4, .random_crop = true, .mirror = true});
  ExpectSameAsReference(
      "standardize: true augmentation { height: 12 width: 10 pad: 2 random_crop: true mirror: true "
      "brightness: 63 contrast_min: 0.2 contrast_max: 1.8 }",
      {.height = 12,
       .width = 10,
       .pad_pixels = 2,
       .random_crop = true,
       .mirror = true,
       .standardize = true,
       .brightness = 63,
       .contrast_min = 0.2,
       .contrast_max = 1.8});
  ExpectSameAsReference(
      "mean: [0.4, 0.5, 0.6] std: [0.2, 0.25, 0.3] augmentation { height: 30 width: 30 pad: "
      "7 "
      "contrast_min: 0.5 }",
      {.height = 30,
       .width = 30,
       .pad_pixels = 7,
       .contrast_min = 0.5,
       .mean = {0.4, 0.5, 0.6},
       .deviation = {0.2, 0.25, 0.3}});
}

TEST(Augmenter, PadsWithReflectionsIfAsked) {
  ExpectSameAsReference(
      "augmentation { pad: 4 pad_with: reflection random_crop: true mirror: true }",
      {.height = 17,
       .width = 21,
       .pad_pixels = 4,
       .random_crop = true,
       .mirror = true,
       .reflects = true});
  // Crops that may lie in the padding as a whole.
  ExpectSameAsReference(
      "augmentation { height: 3 width: 2 pad: 16 pad_with: reflection random_crop: true }",
      {.height = 3, .width = 2, .pad_pixels = 16, .random_crop = true, .reflects = true});
  EXPECT_THAT(MakeAugmenter("augmentation { pad: 8 pad_with: reflection }")
                  .OutputSizeOf({8, 9})
                  .status()
                  .message(),
              HasSubstr("is 9 x 8 pixels before it is padded with 8 reflected ones on every side; "
                        "data.augmentation.pad must be less than 8"));
}

TEST(Augmenter, MirrorsInTurnIfAsked) {
  ExpectSameAsReference(
      "augmentation { pad: 2 random_crop: true mirror: true mirror_in_turn: true }",
      {.height = 17,
       .width = 21,
       .pad_pixels = 2,
       .random_crop = true,
       .mirror = true,
       .mirrors_in_turn = true});
}

TEST(Augmenter, WithoutOptionsMapsPixelsExactly) {
  Image image;
  image.Resize(1, 1, 3);
  image.pixels = {0, 51, 255};
  EXPECT_EQ(AugmentImage(MakeAugmenter("", Split::kTrain, 1), image),
            (std::vector<float>{0.f, 51 / 255.f, 1.f}));
  EXPECT_EQ(AugmentImage(MakeAugmenter("scale: 2 offset: -1", Split::kTrain, 1), image),
            (std::vector<float>{-1.f, 51 / 255.f * 2.f - 1.f, 1.f}));
  EXPECT_EQ(AugmentImage(MakeAugmenter("mean: 0.5 std: 0.25", Split::kTrain, 1), image),
            (std::vector<float>{-2.f, (51 / 255.f - 0.5f) / 0.25f, 2.f}));
}

TEST(Augmenter, EvaluationUsesOnlyTheSizes) {
  const Image image = MakePicture(3, 17, 21);
  const auto augmented = AugmentImage(
      MakeAugmenter(
          "augmentation { height: 12 width: 10 pad: 4 random_crop: true mirror: true brightness: "
          "63 contrast_min: 0.2 contrast_max: 1.8 }",
          Split::kTest),
      image, {5, 5});
  ExpectNear(augmented, ReferenceAugmenter{.height = 12, .width = 10}.Augment(image, {}));
}

TEST(Augmenter, MirrorsHalfTheTimeAndCropsUniformly) {
  const Augmenter augmenter =
      MakeAugmenter("augmentation { pad: 4 random_crop: true mirror: true }", Split::kTrain, 1);
  Image image;
  image.Resize(1, 32, 32);
  std::fill(image.pixels.begin(), image.pixels.end(), 0);
  image.pixels[16 * 32 + 8] = 255;  // where this pixel ends up shows the crop and the mirroring
  constexpr int kNumImages = 16200;
  std::vector<int> row_counts(32), column_counts(32);
  int num_mirrored_images = 0;
  for (uint64_t sample = 0; sample < kNumImages; ++sample) {
    const auto out = AugmentImage(augmenter, image, {3, sample});
    const auto position = std::max_element(out.begin(), out.end()) - out.begin();
    ++row_counts[static_cast<size_t>(position / 32)];
    ++column_counts[static_cast<size_t>(position % 32)];
    if (position % 32 > 16) ++num_mirrored_images;
  }
  EXPECT_NEAR(num_mirrored_images, kNumImages / 2, 4 * std::sqrt(kNumImages / 4));
  for (size_t row = 12; row <= 20; ++row) EXPECT_NEAR(row_counts[row], kNumImages / 9, 160) << row;
  for (size_t x = 4; x <= 12; ++x) {
    EXPECT_NEAR(column_counts[x], kNumImages / 18, 120) << x;
    EXPECT_NEAR(column_counts[31 - x], kNumImages / 18, 120) << x;
  }
}

TEST(Augmenter, DependsOnlyOnEpochSampleAndSeed) {
  const std::string data_text = "augmentation { pad: 8 random_crop: true mirror: true }";
  const Image image = MakePicture(3, 32, 32);
  const auto first_result = AugmentImage(MakeAugmenter(data_text), image, {0, 1});
  EXPECT_EQ(AugmentImage(MakeAugmenter(data_text), image, {0, 1}), first_result);
  EXPECT_NE(AugmentImage(MakeAugmenter(data_text), image, {1, 1}), first_result);
  EXPECT_NE(AugmentImage(MakeAugmenter(data_text), image, {0, 2}), first_result);
  EXPECT_NE(AugmentImage(*Augmenter::Make(ParseData(data_text), kSeed + 1, Split::kTrain, 3), image,
                         {0, 1}),
            first_result);
}

TEST(Augmenter, StandardizesAFlatImageToZeros) {
  Image image;
  image.Resize(3, 4, 4);
  std::fill(image.pixels.begin(), image.pixels.end(), 200);
  for (const float value : AugmentImage(MakeAugmenter("standardize: true"), image))
    EXPECT_NEAR(value, 0, 1e-5);
}

// Each pixel of column_ramp has its column as value, each pixel of row_ramp its row, so that the
// values of a crop show the crop's width and height.
TEST(Augmenter, RandomResizedCropKeepsAreaAndAspectInRange) {
  const Augmenter augmenter = MakeAugmenter(
      "augmentation { random_resized_crop: true height: 2 width: 2 area_min: 0.25 area_max: 0.5 }",
      Split::kTrain, 1);
  Image column_ramp, row_ramp;
  column_ramp.Resize(1, 200, 200);
  row_ramp.Resize(1, 200, 200);
  for (size_t y = 0; y < 200; ++y) {
    for (size_t x = 0; x < 200; ++x) {
      column_ramp.pixels[y * 200 + x] = static_cast<uint8_t>(x);
      row_ramp.pixels[y * 200 + x] = static_cast<uint8_t>(y);
    }
  }
  double mean_area = 0, mean_log_aspect = 0, smallest_area = 1, largest_area = 0;
  constexpr int kNumImages = 400;
  for (uint64_t sample = 0; sample < kNumImages; ++sample) {
    const auto column_values = AugmentImage(augmenter, column_ramp, {0, sample}),
               row_values = AugmentImage(augmenter, row_ramp, {0, sample});
    // The crop is resized to two pixels a side. On a ramp, the difference of two neighbours is half
    // the crop's side.
    const double width = 255 * (column_values[1] - column_values[0]) * 2,
                 height = 255 * (row_values[2] - row_values[0]) * 2;
    const double area_share = width * height / 40000;
    smallest_area = std::min(smallest_area, area_share);
    largest_area = std::max(largest_area, area_share);
    mean_area += area_share / kNumImages;
    mean_log_aspect += std::log(width / height) / kNumImages;
  }
  EXPECT_NEAR(largest_area / smallest_area, 2, 0.12);
  EXPECT_NEAR(mean_area / smallest_area, 1.5, 0.06);
  EXPECT_NEAR(mean_log_aspect, 0, 0.03);
}

TEST(Augmenter, RandomResizedCropOfAStripFallsBackToItsMiddle) {
  const Augmenter augmenter =
      MakeAugmenter("augmentation { random_resized_crop: true height: 3 width: 3 area_min: 1 }",
                    Split::kTrain, 1);
  Image strip;
  strip.Resize(1, 2, 90);
  for (size_t i = 0; i < strip.pixels.size(); ++i) strip.pixels[i] = static_cast<uint8_t>(i % 90);
  for (const float value : AugmentImage(augmenter, strip)) EXPECT_NEAR(value * 255, 44.5, 2.5);
}

TEST(Augmenter, ScalesTheShorterSideFirst) {
  const Augmenter augmenter = MakeAugmenter("augmentation { resize_shorter: 8 }");
  for (const auto& [input_size, output_size] : {std::pair{Size{16, 32}, Size{8, 16}},
                                                {Size{30, 20}, Size{12, 8}},
                                                {Size{4, 4}, Size{8, 8}},
                                                {Size{8, 9}, Size{8, 9}}}) {
    EXPECT_EQ(*augmenter.OutputSizeOf(input_size), output_size);
  }
  const Augmenter cropping_augmenter =
      MakeAugmenter("augmentation { resize_shorter: 8 height: 8 width: 8 }");
  EXPECT_EQ(*cropping_augmenter.OutputSizeOf({333, 500}), (Size{8, 8}));
}

TEST(Augmenter, RefusesACropThatIsTooLarge) {
  const auto output_size =
      MakeAugmenter("augmentation { height: 24 width: 24 }").OutputSizeOf({24, 20});
  EXPECT_EQ(output_size.status().code(), Code::kBadData);
  EXPECT_THAT(output_size.status().message(),
              HasSubstr("20 x 24 pixels before the crop, smaller than the "
                        "crop of 24 x 24; set data.augmentation."));
  EXPECT_TRUE(
      MakeAugmenter("augmentation { height: 24 width: 24 pad: 2 }").OutputSizeOf({24, 20}).ok());
  EXPECT_FALSE(MakeAugmenter("augmentation { height: 24 width: 24 pad: 2 }", Split::kTest)
                   .OutputSizeOf({24, 20})
                   .ok());
  EXPECT_THAT(MakeAugmenter("augmentation { resize_shorter: 60000 }")
                  .OutputSizeOf({2, 2})
                  .status()
                  .message(),
              HasSubstr("too many"));
}

TEST(Augmenter, RefusesOptionsThatDoNotFitTheImages) {
  const auto error_of = [](const std::string& data_text) {
    return Augmenter::Make(ParseData(data_text), 1, Split::kTrain, 3).status().message();
  };
  EXPECT_THAT(error_of("mean: 0.5 std: 0.5"), HasSubstr("data.mean has 1 values"));
  EXPECT_THAT(error_of("mean: [1, 2, 3]"), HasSubstr("data.std has 0 values"));
  EXPECT_THAT(error_of("augmentation { random_resized_crop: true }"),
              HasSubstr("without height and width"));
}

}  // namespace
}  // namespace tern::data
