#include "worker/data/batches.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/base/channel.h"
#include "common/base/threads.h"
#include "worker/data/order.h"

namespace tern::data {

Result<Batches> Batches::Make(const Dataset& dataset, const Options& options) {
  Result<Epochs> epochs =
      Epochs::Make({options.rank, options.workers, options.batch_total, options.partition,
                    options.epoch_end, options.growth, dataset.count()});
  if (!epochs.ok()) return epochs.status();
  return Batches(dataset, options, std::move(*epochs));
}

Batches::Batches(const Dataset& dataset, const Options& options, Epochs epochs)
    : dataset_(&dataset),
      options_(options),
      epochs_(std::move(epochs)),
      pixels_(MakePixelTable(options.scale, options.offset)) {}

std::vector<uint64_t> Batches::Indices(uint64_t step) {
  const Place place = epochs_.At(step);
  const uint64_t length = epochs_.row_length();
  const bool wraps = options_.epoch_end == pb::Data::wrap;
  std::vector<uint64_t> indices(place.count);
  for (uint64_t i = 0; i < place.count; ++i) {
    const uint64_t at = place.begin + i;
    const uint64_t drawn = EpochOrder(place.epoch + (wraps ? at / length : 0))[at % length];
    indices[i] =
        options_.partition == pb::Data::shared ? drawn : drawn * options_.workers + options_.rank;
  }
  return indices;
}

void Batches::Fill(uint64_t step, Batch* batch) {
  const std::vector<uint64_t> indices = Indices(step);
  const uint64_t size = dataset_->image_size();
  batch->step = step;
  batch->images.resize(indices.size() * size);
  batch->labels.resize(indices.size());
  float* const out = batch->images.data();
  for (size_t i = 0; i < indices.size(); ++i) {
    FillImage(*dataset_, indices[i], pixels_, out + i * size);
    batch->labels[i] = dataset_->labels[indices[i]];
  }
}

const std::vector<uint32_t>& Batches::EpochOrder(uint64_t epoch) {
  if (epoch != order_epoch_) {
    const bool shared = options_.partition == pb::Data::shared;
    order_ = EpochPermutation(options_.seed, static_cast<uint16_t>(shared ? 0 : options_.rank),
                              epoch, static_cast<uint32_t>(epochs_.row_length()));
    order_epoch_ = epoch;
  }
  return order_;
}

// The same few batches go round between the two threads, so that no step allocates.
struct Prefetcher::Impl {
  Impl(Batches batches_in, uint64_t step, size_t depth)
      : batches(std::move(batches_in)), thread("prefetch", [this, step] { Run(step); }) {
    for (size_t i = 0; i < depth; ++i) empty.Push({});
  }
  ~Impl() {
    empty.Close();
    full.Close();
  }

  void Run(uint64_t step) {
    while (std::optional<Batch> batch = empty.Pop()) {
      batches.Fill(step++, &*batch);
      if (!full.Push(std::move(*batch))) return;
    }
  }

  Batches batches;  // the thread's alone
  Channel<Batch> empty, full;
  Batch in_hand;
  Thread thread;  // last: starts when all else is there, joins before any of it goes
};

Prefetcher::Prefetcher(Batches batches, uint64_t first_step, int depth)
    : impl_(std::make_unique<Impl>(std::move(batches), first_step, std::max(depth, 1))) {}
Prefetcher::~Prefetcher() = default;

const Batch& Prefetcher::Next() {
  Batch next = *impl_->full.Pop();  // closed only by the destructor
  impl_->empty.Push(std::exchange(impl_->in_hand, std::move(next)));
  return impl_->in_hand;
}

Range TestPart(uint64_t count, uint32_t rank, uint32_t workers) {
  const uint64_t part = count / workers;
  const uint64_t longer = count % workers;  // the first so many parts have one more
  const auto begin = [&](uint64_t r) { return r * part + std::min<uint64_t>(r, longer); };
  return {begin(rank), begin(uint64_t{rank} + 1)};
}

}  // namespace tern::data
