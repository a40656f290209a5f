#include "worker/data/prefetcher.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "common/base/text.h"
#include "common/base/threads.h"

namespace tern::data {
namespace {

constexpr size_t kPiece = 8;  // images that a thread takes at once

// A batch on its way. The same few go round, so that no step allocates.
struct Slot {
  Batch batch;
  std::shared_ptr<void> pinned;  // of the batch's bytes
  std::vector<Augmenter::Place> places;
  size_t taken = 0, done = 0;  // images that threads have begun, and have made
  Status status;
  bool complete() const { return done == places.size(); }
};

}  // namespace

//   free --> planned (its samples known) --> taken piece by piece --> complete --> in hand --> free
struct Prefetcher::Impl {
  Impl(const Samples& samples_in, Plan plan_in, const Options& options)
      : samples(samples_in),
        plan(std::move(plan_in)),
        room(options.room),
        as_bytes(options.as_bytes),
        pin(options.pin),
        step(options.first_step) {
    for (uint32_t i = 0; i < std::max(options.depth, 1u) + 1; ++i)  // and the one in hand
      free.push_back(std::make_unique<Slot>());
    for (uint32_t i = 0; i < std::max(options.threads, 1u); ++i)
      threads.emplace_back(Cat("data ", i), [this] { Run(); });
  }
  ~Impl() {
    const std::lock_guard lock(mutex);
    stop = true;
    work.notify_all();
  }

  void Run() {
    Samples::Scratch scratch;
    std::unique_lock lock(mutex);
    while (true) {
      Slot* slot = nullptr;
      work.wait(lock, [&] {
        slot = ToMake();
        return stop || slot != nullptr || MayPlan();
      });
      if (stop) return;
      if (slot != nullptr) {
        MakePiece(slot, &scratch, &lock);
      } else {
        PlanNext(&lock);
      }
    }
  }

  // With the mutex held: the first batch that has images left to take.
  Slot* ToMake() {
    for (const auto& slot : queue)
      if (slot->taken < slot->places.size()) return slot.get();
    return nullptr;
  }
  bool MayPlan() const { return !planning && !free.empty(); }

  void PlanNext(std::unique_lock<std::mutex>* lock) {
    planning = true;
    std::unique_ptr<Slot> slot = std::move(free.front());
    free.pop_front();
    const uint64_t of = step++;
    lock->unlock();
    slot->places = plan(of);
    slot->taken = slot->done = 0;
    slot->status = Ok();
    slot->batch.step = of;
    MakeRoom(slot.get());
    lock->lock();
    planning = false;
    queue.push_back(std::move(slot));
    work.notify_all();
    ready.notify_one();  // there may be nothing to make
  }

  void MakeRoom(Slot* slot) {
    Batch& batch = slot->batch;
    batch.labels.resize(slot->places.size());
    const size_t count = std::max<size_t>(slot->places.size(), room);
    const size_t elements = count * samples.image_size();
    if (!as_bytes) return batch.images.resize(elements);
    batch.draws.resize(count);
    const bool grows = elements > batch.bytes.capacity();
    if (grows) slot->pinned.reset();
    batch.bytes.resize(elements);
    if (grows && pin) slot->pinned = pin(batch.bytes.data(), batch.bytes.capacity());
  }

  Status Fill(Slot* slot, size_t i, Samples::Scratch* scratch) {
    Batch& batch = slot->batch;
    const size_t begin = i * samples.image_size();
    if (!as_bytes)
      return samples.Fill(slot->places[i], scratch, batch.images.data() + begin, &batch.labels[i]);
    return samples.FillBytes(slot->places[i], scratch, batch.bytes.data() + begin, &batch.draws[i],
                             &batch.labels[i]);
  }

  void MakePiece(Slot* slot, Samples::Scratch* scratch, std::unique_lock<std::mutex>* lock) {
    const size_t begin = slot->taken;
    const size_t end = std::min(begin + kPiece, slot->places.size());
    slot->taken = end;
    lock->unlock();
    Status status;
    for (size_t i = begin; i < end && status.ok(); ++i) status = Fill(slot, i, scratch);
    lock->lock();
    if (slot->status.ok()) slot->status = status;
    slot->done += end - begin;
    if (slot->complete()) ready.notify_one();
  }

  const Samples& samples;
  const Plan plan;  // the planning thread's
  const uint32_t room;
  const bool as_bytes;
  const Pin pin;
  std::mutex mutex;  // guards all below but what is in a slot's hands
  std::condition_variable work, ready;
  std::deque<std::unique_ptr<Slot>> queue, free;  // planned, in order of their steps
  uint64_t step;
  bool planning = false, stop = false;
  std::unique_ptr<Slot> in_hand;
  std::vector<Thread> threads;  // last: start when all else is there, join before any of it goes
};

Prefetcher::Prefetcher(const Samples& samples, Plan plan, const Options& options)
    : impl_(std::make_unique<Impl>(samples, std::move(plan), options)) {}
Prefetcher::~Prefetcher() = default;

Result<const Batch*> Prefetcher::Next() {
  std::unique_lock lock(impl_->mutex);
  impl_->ready.wait(lock,
                    [this] { return !impl_->queue.empty() && impl_->queue.front()->complete(); });
  if (!impl_->queue.front()->status.ok()) return impl_->queue.front()->status;
  if (impl_->in_hand != nullptr) impl_->free.push_back(std::move(impl_->in_hand));
  impl_->in_hand = std::move(impl_->queue.front());
  impl_->queue.pop_front();
  impl_->work.notify_one();
  return &impl_->in_hand->batch;
}

const Batch* Prefetcher::Peek() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->queue.empty()) return nullptr;
  const Slot& slot = *impl_->queue.front();
  return slot.complete() && slot.status.ok() ? &slot.batch : nullptr;
}

}  // namespace tern::data
