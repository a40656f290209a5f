#include "worker/data/batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "worker/data/order.h"

namespace tern::data {
namespace {

// Returns the images that `rank` owns if the images, sorted by label, are divided among the ranks.
std::vector<uint32_t> ImagesOwnedByClass(const std::vector<uint32_t>& labels, uint32_t rank,
                                         uint32_t workers) {
  std::vector<uint32_t> images_by_label(labels.size());
  std::iota(images_by_label.begin(), images_by_label.end(), 0u);
  std::stable_sort(images_by_label.begin(), images_by_label.end(),
                   [&labels](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
  const Range range = DivideSamples(images_by_label.size(), rank, workers);
  return {images_by_label.begin() + static_cast<std::ptrdiff_t>(range.begin),
          images_by_label.begin() + static_cast<std::ptrdiff_t>(range.end)};
}

}  // namespace

Result<Batches> Batches::Make(const Samples& samples, Epochs::Options options, uint64_t seed) {
  options.num_images = samples.count();
  Result<Epochs> epochs = Epochs::Make(options);
  if (!epochs.ok()) return epochs.status();
  return Batches(samples, std::move(options), seed, std::move(*epochs));
}

Batches::Batches(const Samples& samples, Epochs::Options options, uint64_t seed, Epochs epochs)
    : samples_(&samples), options_(std::move(options)), seed_(seed), epochs_(std::move(epochs)) {
  if (options_.partition == pb::Data::by_class)
    owned_images_ = ImagesOwnedByClass(samples.dataset().labels, options_.rank, options_.workers);
}

std::vector<Augmenter::SampleId> Batches::SamplesAt(uint64_t step) {
  const EpochSlice slice = epochs_.SliceAt(step);
  const uint64_t epoch_length = epochs_.epoch_length();
  const bool wraps = options_.epoch_end == pb::Data::wrap;
  std::vector<Augmenter::SampleId> sample_ids(slice.count);
  for (uint64_t i = 0; i < slice.count; ++i) {
    const uint64_t position = slice.begin + i;
    const uint64_t epoch = slice.epoch + (wraps ? position / epoch_length : 0);
    const uint64_t order_index = EpochOrder(epoch)[position % epoch_length];
    sample_ids[i].epoch = epoch;
    switch (options_.partition) {
      case pb::Data::shared:
        sample_ids[i].index = order_index;
        break;
      case pb::Data::by_sample:
        sample_ids[i].index = order_index * options_.workers + options_.rank;
        break;
      case pb::Data::by_class:
        sample_ids[i].index = owned_images_[order_index];
        break;
    }
  }
  return sample_ids;
}

const std::vector<uint32_t>& Batches::EpochOrder(uint64_t epoch) {
  if (epoch != cached_epoch_) {
    const bool is_shared = options_.partition == pb::Data::shared;
    cached_order_ = EpochPermutation(seed_, static_cast<uint16_t>(is_shared ? 0 : options_.rank),
                                     epoch, static_cast<uint32_t>(epochs_.epoch_length()));
    cached_epoch_ = epoch;
  }
  return cached_order_;
}

Range DivideSamples(uint64_t count, uint32_t rank, uint32_t workers) {
  const uint64_t min_length = count / workers;
  const uint64_t num_longer = count % workers;  // The first num_longer ranges have one sample more.
  const auto range_begin = [&](uint64_t r) {
    return r * min_length + std::min<uint64_t>(r, num_longer);
  };
  return {range_begin(rank), range_begin(uint64_t{rank} + 1)};
}

}  // namespace tern::data
