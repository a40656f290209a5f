#include "worker/data/prefetcher.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/text.h"
#include "common/base/threads.h"

namespace tern::data {
namespace {

constexpr size_t kPieceImages = 8;  // How many images a thread takes at a time.

// A batch and the state of its preparation. The objects and their buffers are reused.
struct PendingBatch {
  Batch batch;
  std::shared_ptr<void> page_lock;  // Keeps batch.bytes page-locked.
  std::vector<Augmenter::SampleId> sample_ids;
  size_t num_taken = 0, num_done = 0;  // How many images threads have begun, and have finished.
  Status fill_status;                  // The first error of a sample; Ok if there is none.
  bool is_complete() const { return num_done == sample_ids.size(); }
};

}  // namespace

// A batch goes through these states:
//
//   free --> planned (its samples are known) --> filled, a few images at a time --> complete
//        --> current (Next has returned it) --> free
struct Prefetcher::Impl {
  Impl(const Samples& samples_in, SamplePlan plan_in, const Options& options)
      : samples(samples_in),
        plan(std::move(plan_in)),
        min_images(options.min_images),
        fills_bytes(options.fills_bytes),
        pin(options.pin),
        next_step(options.first_step) {
    for (uint32_t i = 0; i < std::max(options.depth, 1u) + 1; ++i)  // + 1: the current batch.
      free_batches.push_back(std::make_unique<PendingBatch>());
    for (uint32_t i = 0; i < std::max(options.threads, 1u); ++i)
      threads.emplace_back(Cat("data ", i), [this] { Run(); });
  }
  ~Impl() {
    const MutexLock lock(mutex);
    is_stopping = true;
    work_available.NotifyAll();
  }

  void Run() {
    Samples::Scratch scratch;
    const MutexLock lock(mutex);
    while (!is_stopping) {
      if (PendingBatch* pending = NextUnfilled(); pending != nullptr) {
        FillPiece(pending, &scratch);
      } else if (CanPlan()) {
        PlanNext();
      } else {
        work_available.Wait(mutex);
      }
    }
  }

  // Returns the first batch of `queue` with images that no thread has taken; null if there is none.
  PendingBatch* NextUnfilled() TERN_MUST_HOLD(mutex) {
    for (const auto& pending : queue)
      if (pending->num_taken < pending->sample_ids.size()) return pending.get();
    return nullptr;
  }
  bool CanPlan() const TERN_MUST_HOLD(mutex) { return !is_planning && !free_batches.empty(); }

  // Plans the batch of the next step: determines its samples. Releases the mutex meanwhile.
  void PlanNext() TERN_MUST_HOLD(mutex) {
    is_planning = true;
    std::unique_ptr<PendingBatch> pending = std::move(free_batches.front());
    free_batches.pop_front();
    const uint64_t planned_step = next_step++;
    mutex.Unlock();
    pending->sample_ids = plan(planned_step);
    pending->num_taken = pending->num_done = 0;
    pending->fill_status = Ok();
    pending->batch.step = planned_step;
    ResizeBuffers(pending.get());
    mutex.Lock();
    is_planning = false;
    queue.push_back(std::move(pending));
    work_available.NotifyAll();
    batch_ready.NotifyOne();  // An empty batch is complete at once.
  }

  void ResizeBuffers(PendingBatch* pending) {
    Batch& batch = pending->batch;
    batch.labels.resize(pending->sample_ids.size());
    const size_t num_images = std::max<size_t>(pending->sample_ids.size(), min_images);
    const size_t num_elements = num_images * samples.image_size();
    if (!fills_bytes) return batch.images.resize(num_elements);
    batch.draws.resize(num_images);
    const bool buffer_grows = num_elements > batch.bytes.capacity();
    if (buffer_grows) pending->page_lock.reset();
    batch.bytes.resize(num_elements);
    if (buffer_grows && pin) pending->page_lock = pin(batch.bytes.data(), batch.bytes.capacity());
  }

  // Fills in sample i of the batch.
  Status FillSample(PendingBatch* pending, size_t i, Samples::Scratch* scratch) {
    Batch& batch = pending->batch;
    const size_t first_element = i * samples.image_size();
    if (!fills_bytes)
      return samples.FillFloats(pending->sample_ids[i], scratch,
                                batch.images.data() + first_element, &batch.labels[i]);
    return samples.FillBytes(pending->sample_ids[i], scratch, batch.bytes.data() + first_element,
                             &batch.draws[i], &batch.labels[i]);
  }

  // Takes the next few images of the batch and fills them. Releases the mutex meanwhile.
  void FillPiece(PendingBatch* pending, Samples::Scratch* scratch) TERN_MUST_HOLD(mutex) {
    const size_t begin = pending->num_taken;
    const size_t end = std::min(begin + kPieceImages, pending->sample_ids.size());
    pending->num_taken = end;
    mutex.Unlock();
    Status fill_status;
    for (size_t i = begin; i < end && fill_status.ok(); ++i)
      fill_status = FillSample(pending, i, scratch);
    mutex.Lock();
    if (pending->fill_status.ok()) pending->fill_status = fill_status;
    pending->num_done += end - begin;
    if (!pending->is_complete()) return;
    RemoveLeftOut(&pending->batch);
    batch_ready.NotifyOne();
  }

  // Removes the images that Samples left out: the images behind them move up.
  void RemoveLeftOut(Batch* batch) const {
    const size_t size = samples.image_size();
    const auto move_up = [size](auto& pixels, size_t from, size_t to) {
      std::copy_n(pixels.begin() + static_cast<ptrdiff_t>(from * size), size,
                  pixels.begin() + static_cast<ptrdiff_t>(to * size));
    };
    size_t num_kept = 0;
    for (size_t i = 0; i < batch->labels.size(); ++i) {
      if (batch->labels[i] == Samples::kLeftOut) continue;
      if (num_kept != i) {
        batch->labels[num_kept] = batch->labels[i];
        if (!fills_bytes) move_up(batch->images, i, num_kept);
        if (fills_bytes) move_up(batch->bytes, i, num_kept);
        if (fills_bytes) batch->draws[num_kept] = batch->draws[i];
      }
      ++num_kept;
    }
    batch->labels.resize(num_kept);
  }

  const Samples& samples;
  const SamplePlan plan;  // Called by one thread at a time, while `is_planning` is set.
  const uint32_t min_images;
  const bool fills_bytes;
  const PinFunction pin;
  Mutex mutex;               // Does not guard the contents of the batches that threads fill.
  Condition work_available;  // Notified when there may be work for the threads.
  Condition batch_ready;     // Notified when the first batch of `queue` may be complete.
  // The planned, filled and complete batches, in order of their steps.
  std::deque<std::unique_ptr<PendingBatch>> queue TERN_GUARDED_BY(mutex);
  std::deque<std::unique_ptr<PendingBatch>> free_batches TERN_GUARDED_BY(mutex);
  uint64_t next_step TERN_GUARDED_BY(mutex);  // The next step to plan.
  bool is_planning TERN_GUARDED_BY(mutex) = false;
  bool is_stopping TERN_GUARDED_BY(mutex) = false;
  std::unique_ptr<PendingBatch> current_batch TERN_GUARDED_BY(mutex);
  // The last member, because the threads use the other members from their start to their end.
  std::vector<Thread> threads;
};

Prefetcher::Prefetcher(const Samples& samples, SamplePlan plan, const Options& options)
    : impl_(std::make_unique<Impl>(samples, std::move(plan), options)) {}
Prefetcher::~Prefetcher() = default;

Result<const Batch*> Prefetcher::Next() {
  const MutexLock lock(impl_->mutex);
  while (impl_->queue.empty() || !impl_->queue.front()->is_complete())
    impl_->batch_ready.Wait(impl_->mutex);
  if (!impl_->queue.front()->fill_status.ok()) return impl_->queue.front()->fill_status;
  if (impl_->current_batch != nullptr)
    impl_->free_batches.push_back(std::move(impl_->current_batch));
  impl_->current_batch = std::move(impl_->queue.front());
  impl_->queue.pop_front();
  impl_->work_available.NotifyOne();
  return &impl_->current_batch->batch;
}

const Batch* Prefetcher::Peek() {
  const MutexLock lock(impl_->mutex);
  if (impl_->queue.empty()) return nullptr;
  const PendingBatch& pending = *impl_->queue.front();
  return pending.is_complete() && pending.fill_status.ok() ? &pending.batch : nullptr;
}

}  // namespace tern::data
