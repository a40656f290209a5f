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
  const auto bad = [](const std::string& what) { return Status(Code::kBadJob, what); };
  const std::string batch = std::to_string(options.batch_total);
  const std::string workers = std::to_string(options.workers);
  if (options.rank >= options.workers) {
    return bad("rank " + std::to_string(options.rank) + " of " + workers +
               " workers; expected 0 to workers.count - 1");
  }
  if (options.batch_total == 0 || options.batch_total % options.workers != 0) {
    return bad("train.batch_total is " + batch + "; expected a multiple of the " + workers +
               " workers, so that each takes an equal part");
  }
  if (dataset.count() < options.batch_total) {
    return bad("the training set holds " + std::to_string(dataset.count()) +
               " images, fewer than train.batch_total (" + batch +
               "); lower it or raise data.train_limit");
  }
  return Batches(dataset, options);
}

Batches::Batches(const Dataset& dataset, const Options& options)
    : dataset_(&dataset), options_(options), row_length_(dataset.count()) {
  if (options.partition == pb::Data::by_sample) {
    row_length_ = (dataset.count() - options.rank + options.workers - 1) / options.workers;
  }
  pixels_ = MakePixelTable(options.scale, options.offset);
}

uint64_t Batches::steps_per_epoch() const { return dataset_->count() / options_.batch_total; }

std::vector<uint64_t> Batches::Indices(uint64_t step) {
  const uint64_t part = options_.batch_total / options_.workers;
  const bool shared = options_.partition == pb::Data::shared;
  uint64_t place = shared ? step * options_.batch_total + options_.rank * part : step * part;
  std::vector<uint64_t> indices(part);
  for (uint64_t& index : indices) {
    const uint64_t drawn = EpochOrder(place / row_length_)[place % row_length_];
    index = shared ? drawn : drawn * options_.workers + options_.rank;
    ++place;
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
                              epoch, static_cast<uint32_t>(row_length_));
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
