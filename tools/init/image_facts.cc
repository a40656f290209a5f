#include "tools/init/image_facts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "common/base/text.h"
#include "worker/data/damaged_images.h"
#include "worker/data/datasets.h"

namespace tern::tools {
namespace {

// Whether all three channels of an image are equal.
bool IsGray(const data::Image& image) {
  const auto plane = static_cast<ptrdiff_t>(image.plane());
  const auto red = image.pixels.begin();
  return std::equal(red, red + plane, red + plane) && std::equal(red, red + plane, red + 2 * plane);
}

// Adds up values from 0 to 1, by channel.
struct ChannelSums {
  explicit ChannelSums(uint32_t channels) : sums(channels), squares(channels) {}
  std::vector<double> sums, squares;
  double pixels = 0;

  void Add(const data::Image& image) {
    const size_t plane = image.plane();
    for (size_t j = 0; j < image.pixels.size(); ++j) {
      const double value = image.pixels[j] / 255.0;
      sums[j / plane] += value;
      squares[j / plane] += value * value;
    }
    pixels += static_cast<double>(plane);
  }
};

// Sets the facts that the pixels show.
Status LookAtPixels(const data::Dataset& dataset, ImageFacts* facts) {
  const uint64_t num_looked_at = std::min(dataset.count(), kMaxDecodedImages);
  ChannelSums channels(dataset.channels);
  std::vector<uint32_t> shorter_sides;
  bool are_gray = dataset.channels == 3;
  data::Image image;
  for (uint64_t k = 0; k < num_looked_at; ++k) {
    const uint64_t index = k * dataset.count() / num_looked_at;
    if (const Status decode_status = dataset.Decode(index, &image); !decode_status.ok()) {
      TERN_RETURN_IF_ERROR(dataset.damaged_images->Add(dataset.NameOf(index), decode_status));
      continue;
    }
    ++facts->decoded_count;
    channels.Add(image);
    are_gray = are_gray && IsGray(image);
    shorter_sides.push_back(std::min(image.height, image.width));
  }
  if (facts->decoded_count == 0)
    return Status(Code::kBadData, Cat(dataset.NameOf(0), " and all other images are damaged"));
  const auto middle = shorter_sides.begin() + static_cast<ptrdiff_t>(shorter_sides.size() / 2);
  std::nth_element(shorter_sides.begin(), middle, shorter_sides.end());
  facts->shorter_side = *middle;
  // Files of pixels keep their channels. JPEG and PNG are decoded to as many as the network has.
  facts->channels = are_gray && dataset.is_encoded ? 1 : dataset.channels;
  for (uint32_t c = 0; c < facts->channels; ++c) {
    const double mean = channels.sums[c] / channels.pixels;
    const double variance = std::max(channels.squares[c] / channels.pixels - mean * mean, 0.0);
    facts->mean.push_back(mean);
    // Images of one color have no deviation, by which nothing can be divided.
    facts->deviation.push_back(std::max(std::sqrt(variance), 1e-3));
  }
  return Ok();
}

}  // namespace

Result<pb::Data> FindImages(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored_error;
  pb::Data data;
  data.set_dir(path);
  if (fs::is_regular_file(path, ignored_error)) {
    const fs::path folder = fs::path(path).parent_path();
    data.set_dir(folder.empty() ? "." : folder.string());
  }
  const std::vector<std::pair<const char*, pb::Data::Format>> formats = {
      {"train.tpk", pb::Data::packed},
      {"train-images-idx3-ubyte", pb::Data::idx},
      {"train-images-idx3-ubyte.gz", pb::Data::idx},
      {"data_batch_1.bin", pb::Data::cifar10},
      {"train.bin", pb::Data::cifar100},
      {"train", pb::Data::folder}};
  for (const auto& [name, format] : formats) {
    if (!fs::exists(fs::path(data.dir()) / name, ignored_error)) continue;
    data.set_format(format);
    return data;
  }
  return Status(Code::kBadData,
                Cat(Printable(path, 200),
                    ": saw no images in a known format; expected train/CLASS/FILE and "
                    "test/CLASS/FILE (JPEG or PNG), train.tpk, train-images-idx3-ubyte, "
                    "data_batch_1.bin or train.bin there; docs/DATA.md describes the formats"));
}

Result<ImageFacts> LookAtImages(const pb::Data& images) {
  pb::Data data = images;
  data.set_max_corrupt(data::DamagedImages::kNoLimit);
  data::ReadOptions options;
  options.warn = [](const std::string& sentence) {
    std::fprintf(stderr, "tern: %s\n", sentence.c_str());
  };
  ImageFacts facts;
  const auto test = data::ReadDataset(data, data::Split::kTest, options);
  if (!test.ok()) return test.status();
  facts.test_count = (*test)->count();
  const auto train = data::ReadDataset(data, data::Split::kTrain, options);
  if (!train.ok()) return train.status();
  if ((*train)->count() == 0)
    return Status(Code::kBadData, Cat(data.dir(), ": saw no training images, expected some"));
  facts.train_count = (*train)->count();
  facts.classes = std::max((*train)->classes, (*test)->classes);
  if (facts.classes < 2) {
    options.warn(data.dir() +
                 ": saw images of one class, expected at least two; the model has two, and " +
                 "there is nothing to tell apart");
    facts.classes = 2;
  }
  facts.common_size = {(*train)->height, (*train)->width};
  TERN_RETURN_IF_ERROR(LookAtPixels(**train, &facts));
  facts.damaged_count =
      std::max((*train)->damaged_images->count(), (*test)->damaged_images->count());
  return facts;
}

}  // namespace tern::tools
