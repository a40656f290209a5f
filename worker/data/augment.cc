#include "worker/data/augment.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"
#include "kernels/codes/philox.h"

namespace tern::data {
namespace {

constexpr uint32_t kMaxAttempts = 10;  // Attempts to find a box that lies in the image.

// ToUnit, ToIndex and ToRange map a random 32-bit word to [0, 1), to 0 .. n - 1 and to [low, high).
double ToUnit(uint32_t word) { return word * 0x1p-32; }
uint32_t ToIndex(uint32_t word, uint32_t n) {
  return static_cast<uint32_t>(uint64_t{word} * n >> 32);
}
double ToRange(uint32_t word, double low, double high) { return low + ToUnit(word) * (high - low); }

// Returns the fields that apply to a split: all of them to the training set, only the sizes to the
// test set.
pb::Augmentation FieldsFor(const pb::Augmentation& augmentation, Split split) {
  if (split == Split::kTrain) return augmentation;
  pb::Augmentation sizes;
  if (augmentation.has_height()) sizes.set_height(augmentation.height());
  if (augmentation.has_width()) sizes.set_width(augmentation.width());
  sizes.set_resize_shorter(augmentation.resize_shorter());
  return sizes;
}

kernels::PixelRule RuleOf(const pb::Data& data, const pb::Augmentation& fields, uint32_t channels) {
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
  rule.colors = fields.brightness() > 0 || fields.contrast_min() != 1 || fields.contrast_max() != 1;
  rule.standardize = data.standardize();
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
  const pb::Augmentation& fields = data.augmentation();
  if (fields.random_resized_crop() && !(fields.has_height() && fields.has_width())) {
    return Status(
        Code::kBadJob,
        "data.augmentation.random_resized_crop is set without height and width; set both, "
        "because the crop is scaled to that size");
  }
  return Augmenter(data, seed, split, channels);
}

Augmenter::Augmenter(const pb::Data& data, uint64_t seed, Split split, uint32_t channels)
    : fields_(FieldsFor(data.augmentation(), split)),
      seed_(seed),
      tables_(RuleOf(data, fields_, channels)) {}

Size Augmenter::ScaledSizeOf(Size image) const {
  const uint32_t shorter = fields_.resize_shorter();
  if (shorter == 0) return image;
  const uint32_t short_side = std::min(image.height, image.width);
  const auto scaled = [&](uint32_t side) {
    // side * shorter / short_side, rounded to nearest
    return static_cast<uint32_t>((uint64_t{side} * shorter * 2 + short_side) /
                                 (uint64_t{short_side} * 2));
  };
  return {scaled(image.height), scaled(image.width)};
}

Size Augmenter::CropSizeOf(Size scaled) const {
  return {fields_.has_height() ? fields_.height() : scaled.height,
          fields_.has_width() ? fields_.width() : scaled.width};
}

Result<Size> Augmenter::OutputOf(Size image) const {
  const Size scaled = fields_.random_resized_crop() ? CropSizeOf(image) : ScaledSizeOf(image);
  const Size crop = CropSizeOf(scaled);
  const uint32_t pad = 2 * fields_.pad();
  if (uint64_t{scaled.height} * scaled.width > kMaxPixels) {
    return Status(Code::kBadData,
                  Cat("is ", image.width, " x ", image.height, " pixels, scaled ", scaled.width,
                      " x ", scaled.height, ": too many; lower data.augmentation.resize_shorter"));
  }
  if (crop.height <= scaled.height + pad && crop.width <= scaled.width + pad) return crop;
  return Status(Code::kBadData, Cat("is ", scaled.width, " x ", scaled.height,
                                    " pixels before the crop, smaller than the crop of ",
                                    crop.width, " x ", crop.height,
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
  const double area = static_cast<double>(image.plane());
  const double log_min = std::log(fields_.aspect_min()), log_max = std::log(fields_.aspect_max());
  for (uint32_t t = 0; t < kMaxAttempts; ++t) {
    const RandomWords draws = RandomWordsOf(sample, 2 + t);
    const double box_area = area * ToRange(draws[0], fields_.area_min(), fields_.area_max());
    const double aspect = std::exp(ToRange(draws[1], log_min, log_max));
    const double width = std::round(std::sqrt(box_area * aspect));
    const double height = std::round(std::sqrt(box_area / aspect));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    Box box{0, 0, static_cast<uint32_t>(height), static_cast<uint32_t>(width)};
    box.top = ToIndex(draws[2], image.height - box.height + 1);
    box.left = ToIndex(draws[3], image.width - box.width + 1);
    return box;
  }
  // No attempt fits in the image: takes the largest box with an allowed aspect, in the middle.
  const double aspect = std::clamp(static_cast<double>(image.width) / image.height,
                                   fields_.aspect_min(), fields_.aspect_max());
  const auto side = [](double length, uint32_t max) {
    return static_cast<uint32_t>(std::clamp<double>(std::round(length), 1, max));
  };
  Box box{0, 0, side(image.width / aspect, image.height), side(image.height * aspect, image.width)};
  box.top = (image.height - box.height) / 2;
  box.left = (image.width - box.width) / 2;
  return box;
}

void Augmenter::Apply(const Image& image, const SampleId& sample, Workspace* workspace,
                      float* out) const {
  const Size size = *OutputOf({image.height, image.width});
  workspace->bytes.resize(image.channels * uint64_t{size.height} * size.width);
  const kernels::PixelDraws draws =
      ScaleAndCrop(image, sample, &workspace->scaled, workspace->bytes.data());
  tables_.ToFloats(workspace->bytes.data(), size.height, size.width, draws, out);
}

kernels::PixelDraws Augmenter::ScaleAndCrop(const Image& image, const SampleId& sample,
                                            Image* scaled, uint8_t* out) const {
  const bool is_random = fields_.random_crop() || fields_.mirror() || fields_.brightness() > 0;
  const RandomWords draws = is_random ? RandomWordsOf(sample, 0) : RandomWords{};
  Crop(Scale(image, sample, scaled), draws, out);
  kernels::PixelDraws pixel_draws;
  pixel_draws.mirrored = fields_.mirror() && (draws[0] >> 31) != 0;
  if (!rule().colors) return pixel_draws;
  pixel_draws.brighter =
      static_cast<float>(ToRange(draws[3], -fields_.brightness(), fields_.brightness()));
  pixel_draws.contrast = static_cast<float>(
      ToRange(RandomWordsOf(sample, 1)[0], fields_.contrast_min(), fields_.contrast_max()));
  return pixel_draws;
}

const Image& Augmenter::Scale(const Image& image, const SampleId& sample, Image* scaled) const {
  const Size size{image.height, image.width};
  if (fields_.random_resized_crop()) {
    ResizeBox(image, DrawBox(image, sample), fields_.height(), fields_.width(), scaled);
    return *scaled;
  }
  const Size scaled_size = ScaledSizeOf(size);
  if (scaled_size == size) return image;
  ResizeBox(image, {0, 0, size.height, size.width}, scaled_size.height, scaled_size.width, scaled);
  return *scaled;
}

// Pads and crops in one pass, row by row.
void Augmenter::Crop(const Image& image, const RandomWords& draws, uint8_t* out) const {
  const Size crop = CropSizeOf({image.height, image.width});
  const auto pad = static_cast<int64_t>(fields_.pad());
  // The first row or column of the crop in the image, negative if it lies in the padding.
  const auto begin = [&](uint32_t image_side, uint32_t crop_side, uint32_t word) {
    const auto slack = static_cast<uint32_t>(image_side + 2 * pad - crop_side);
    return (fields_.random_crop() ? ToIndex(word, slack + 1) : slack / 2) - pad;
  };
  const int64_t top = begin(image.height, crop.height, draws[1]);
  const int64_t left = begin(image.width, crop.width, draws[2]);
  // Columns [first, end) of the output lie in the image, the others in the padding.
  const int64_t width = crop.width;
  const int64_t first = std::clamp<int64_t>(-left, 0, width);
  const int64_t end = std::clamp<int64_t>(image.width - left, first, width);
  for (uint32_t c = 0; c < image.channels; ++c) {
    const uint8_t* plane = image.pixels.data() + c * image.plane();
    for (int64_t y = top; y < top + crop.height; ++y, out += width) {
      if (y < 0 || y >= image.height || first == end) {
        std::fill_n(out, width, 0);
        continue;
      }
      const uint8_t* row = plane + y * image.width;
      std::fill(out, out + first, 0);
      std::copy(row + (left + first), row + (left + end), out + first);
      std::fill(out + end, out + width, 0);
    }
  }
}

}  // namespace tern::data
