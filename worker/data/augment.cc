#include "worker/data/augment.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"
#include "kernels/codes/philox.h"
#include "worker/data/reflect.h"

namespace tern::data {
namespace {

constexpr uint32_t kMaxAttempts = 10;  // Attempts to find a box that lies in the image.

// Map a random 32-bit word: ToUnit to [0, 1), ToIndex to 0 .. n - 1, and ToRange to [low, high).
double ToUnit(uint32_t word) { return word * 0x1p-32; }
uint32_t ToIndex(uint32_t word, uint32_t n) {
  return static_cast<uint32_t>(uint64_t{word} * n >> 32);
}
double ToRange(uint32_t word, double low, double high) { return low + ToUnit(word) * (high - low); }

// Returns the settings that apply to a split: all of them to the training set, only the sizes to
// the test set.
pb::Augmentation AugmentationFor(const pb::Augmentation& augmentation, Split split) {
  if (split == Split::kTrain) return augmentation;
  pb::Augmentation sizes_only;
  if (augmentation.has_height()) sizes_only.set_height(augmentation.height());
  if (augmentation.has_width()) sizes_only.set_width(augmentation.width());
  sizes_only.set_resize_shorter(augmentation.resize_shorter());
  return sizes_only;
}

kernels::PixelRule RuleOf(const pb::Data& data, const pb::Augmentation& augmentation,
                          uint32_t channels) {
  kernels::PixelRule rule;
  for (int c = 0; c < static_cast<int>(channels); ++c) {
    if (data.mean_size() == 0) {
      rule.channels.push_back(
          {.scale = static_cast<float>(data.scale()), .offset = static_cast<float>(data.offset())});
    } else {
      rule.channels.push_back(
          {.mean = static_cast<float>(data.mean(c)), .deviation = static_cast<float>(data.std(c))});
    }
  }
  rule.changes_colors = augmentation.brightness() > 0 || augmentation.contrast_min() != 1 ||
                        augmentation.contrast_max() != 1;
  rule.standardizes = data.standardize();
  return rule;
}

}  // namespace

Result<Augmenter> Augmenter::Make(const pb::Data& data, uint64_t seed, Split split,
                                  uint32_t channels) {
  const auto channel_count = static_cast<int>(channels);
  for (const auto& [key, num_values] :
       {std::pair{"data.mean", data.mean_size()}, std::pair{"data.std", data.std_size()}}) {
    const bool is_required = data.mean_size() > 0 || data.std_size() > 0;
    if (is_required && num_values != channel_count) {
      return Status(Code::kBadJob, Cat(key, " has ", num_values, " values, the images have ",
                                       channels, " channels; expected one value per channel"));
    }
  }
  const pb::Augmentation& augmentation = data.augmentation();
  if (augmentation.random_resized_crop() &&
      !(augmentation.has_height() && augmentation.has_width())) {
    return Status(
        Code::kBadJob,
        "data.augmentation.random_resized_crop is set without height and width; set both, "
        "because the crop is scaled to that size");
  }
  return Augmenter(data, seed, split, channels);
}

Augmenter::Augmenter(const pb::Data& data, uint64_t seed, Split split, uint32_t channels)
    : options_(AugmentationFor(data.augmentation(), split)),
      seed_(seed),
      pixel_tables_(RuleOf(data, options_, channels)) {}

Size Augmenter::ScaledSizeOf(Size image_size) const {
  const uint32_t target_side = options_.resize_shorter();
  if (target_side == 0) return image_size;
  const uint32_t short_side = std::min(image_size.height, image_size.width);
  const auto scaled_side = [&](uint32_t side) {
    // side * target_side / short_side, rounded to nearest
    return static_cast<uint32_t>((uint64_t{side} * target_side * 2 + short_side) /
                                 (uint64_t{short_side} * 2));
  };
  return {scaled_side(image_size.height), scaled_side(image_size.width)};
}

Size Augmenter::CropSizeOf(Size scaled_size) const {
  return {options_.has_height() ? options_.height() : scaled_size.height,
          options_.has_width() ? options_.width() : scaled_size.width};
}

Result<Size> Augmenter::OutputSizeOf(Size image_size) const {
  const Size scaled_size =
      options_.random_resized_crop() ? CropSizeOf(image_size) : ScaledSizeOf(image_size);
  const Size crop_size = CropSizeOf(scaled_size);
  const uint32_t total_pad = 2 * options_.pad();
  if (uint64_t{scaled_size.height} * scaled_size.width > kMaxPixels) {
    return Status(Code::kBadData,
                  Cat("is ", image_size.width, " x ", image_size.height, " pixels, scaled ",
                      scaled_size.width, " x ", scaled_size.height,
                      ": too many; lower data.augmentation.resize_shorter"));
  }
  const uint32_t short_side = std::min(scaled_size.height, scaled_size.width);
  if (options_.pad_with() == pb::Augmentation::reflection && options_.pad() >= short_side) {
    return Status(Code::kBadData, Cat("is ", scaled_size.width, " x ", scaled_size.height,
                                      " pixels before it is padded with ", options_.pad(),
                                      " reflected ones on every side; data.augmentation.pad must "
                                      "be less than ",
                                      short_side));
  }
  if (crop_size.height <= scaled_size.height + total_pad &&
      crop_size.width <= scaled_size.width + total_pad)
    return crop_size;
  return Status(Code::kBadData, Cat("is ", scaled_size.width, " x ", scaled_size.height,
                                    " pixels before the crop, smaller than the crop of ",
                                    crop_size.width, " x ", crop_size.height,
                                    "; set data.augmentation.resize_shorter or another height and "
                                    "width"));
}

Augmenter::RandomWords Augmenter::RandomWordsOf(const SampleId& sample, uint32_t block) const {
  return kernels::NoiseBlock({.seed = seed_,
                              .stream = kernels::NoiseStream::kAugmentation,
                              .rank = 0,
                              .round = sample.epoch,
                              .tensor = static_cast<uint32_t>(sample.index)},
                             block, 0);
}

Box Augmenter::DrawBox(const Image& image, const SampleId& sample) const {
  const double image_area = static_cast<double>(image.plane());
  const double min_log_aspect = std::log(options_.aspect_min()),
               max_log_aspect = std::log(options_.aspect_max());
  for (uint32_t t = 0; t < kMaxAttempts; ++t) {
    const RandomWords words = RandomWordsOf(sample, 2 + t);
    const double box_area =
        image_area * ToRange(words[0], options_.area_min(), options_.area_max());
    const double aspect = std::exp(ToRange(words[1], min_log_aspect, max_log_aspect));
    const double width = std::round(std::sqrt(box_area * aspect));
    const double height = std::round(std::sqrt(box_area / aspect));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    Box box{0, 0, static_cast<uint32_t>(height), static_cast<uint32_t>(width)};
    box.top = ToIndex(words[2], image.height - box.height + 1);
    box.left = ToIndex(words[3], image.width - box.width + 1);
    return box;
  }
  // No attempt fits in the image: takes the largest box with an allowed aspect, in the middle.
  const double aspect = std::clamp(static_cast<double>(image.width) / image.height,
                                   options_.aspect_min(), options_.aspect_max());
  const auto rounded_side = [](double length, uint32_t max) {
    return static_cast<uint32_t>(std::clamp<double>(std::round(length), 1, max));
  };
  Box box{0, 0, rounded_side(image.width / aspect, image.height),
          rounded_side(image.height * aspect, image.width)};
  box.top = (image.height - box.height) / 2;
  box.left = (image.width - box.width) / 2;
  return box;
}

void Augmenter::Apply(const Image& image, const SampleId& sample, Workspace* workspace,
                      float* out) const {
  const Size output_size = *OutputSizeOf({image.height, image.width});
  workspace->bytes.resize(image.channels * uint64_t{output_size.height} * output_size.width);
  const kernels::PixelDraws draws =
      ScaleAndCrop(image, sample, &workspace->scaled_image, workspace->bytes.data());
  pixel_tables_.ToFloats(workspace->bytes.data(), output_size.height, output_size.width, draws,
                         out);
}

kernels::PixelDraws Augmenter::ScaleAndCrop(const Image& image, const SampleId& sample,
                                            Image* scaled_image, uint8_t* out) const {
  const bool is_random = options_.random_crop() || options_.mirror() || options_.brightness() > 0;
  const RandomWords words = is_random ? RandomWordsOf(sample, 0) : RandomWords{};
  CropImage(ScaleImage(image, sample, scaled_image), words, out);
  kernels::PixelDraws pixel_draws;
  pixel_draws.is_mirrored = IsMirrored(sample, words);
  if (!rule().changes_colors) return pixel_draws;
  pixel_draws.brightness_shift =
      static_cast<float>(ToRange(words[3], -options_.brightness(), options_.brightness()));
  pixel_draws.contrast = static_cast<float>(
      ToRange(RandomWordsOf(sample, 1)[0], options_.contrast_min(), options_.contrast_max()));
  return pixel_draws;
}

bool Augmenter::IsMirrored(const SampleId& sample, const RandomWords& words) const {
  if (!options_.mirror()) return false;
  if (!options_.mirror_in_turn()) return words[0] >> 31 != 0;
  const bool is_odd_epoch = sample.epoch % 2 != 0;
  return (RandomWordsOf({0, sample.index}, 0)[0] >> 31 != 0) != is_odd_epoch;
}

const Image& Augmenter::ScaleImage(const Image& image, const SampleId& sample,
                                   Image* scaled_image) const {
  const Size image_size{image.height, image.width};
  if (options_.random_resized_crop()) {
    ResizeBox(image, DrawBox(image, sample), options_.height(), options_.width(), scaled_image);
    return *scaled_image;
  }
  const Size scaled_size = ScaledSizeOf(image_size);
  if (scaled_size == image_size) return image;
  ResizeBox(image, {0, 0, image_size.height, image_size.width}, scaled_size.height,
            scaled_size.width, scaled_image);
  return *scaled_image;
}

// Pads and crops in one pass, row by row.
void Augmenter::CropImage(const Image& image, const RandomWords& words, uint8_t* out) const {
  const Size crop_size = CropSizeOf({image.height, image.width});
  const auto pad = static_cast<int64_t>(options_.pad());
  // The first row or column of the crop in the image, negative if it lies in the padding.
  const auto crop_begin = [&](uint32_t image_side, uint32_t crop_side, uint32_t word) {
    const auto slack = static_cast<uint32_t>(image_side + 2 * pad - crop_side);
    return (options_.random_crop() ? ToIndex(word, slack + 1) : slack / 2) - pad;
  };
  const int64_t top = crop_begin(image.height, crop_size.height, words[1]);
  const int64_t left = crop_begin(image.width, crop_size.width, words[2]);
  // Columns [first_column, end_column) of the output lie in the image, the others in the padding.
  const int64_t width = crop_size.width;
  const int64_t first_column = std::clamp<int64_t>(-left, 0, width);
  const int64_t end_column = std::clamp<int64_t>(image.width - left, first_column, width);
  const bool reflects = options_.pad_with() == pb::Augmentation::reflection;
  for (uint32_t c = 0; c < image.channels; ++c) {
    const uint8_t* channel_pixels = image.pixels.data() + c * image.plane();
    for (int64_t y = top; y < top + crop_size.height; ++y, out += width) {
      const bool is_inside = y >= 0 && y < image.height;
      if (!is_inside && !reflects) {
        std::fill_n(out, width, 0);
        continue;
      }
      const uint8_t* row =
          channel_pixels + (is_inside ? y : Reflected(y, image.height)) * image.width;
      const auto pad_columns = [&](int64_t begin, int64_t end) {
        for (int64_t x = begin; x < end; ++x)
          out[x] = reflects ? row[Reflected(left + x, image.width)] : uint8_t{0};
      };
      pad_columns(0, first_column);
      if (first_column < end_column)
        std::copy(row + (left + first_column), row + (left + end_column), out + first_column);
      pad_columns(end_column, width);
    }
  }
}

}  // namespace tern::data
