// A process writes checkpoints. In each of its changes to the disk, one test stops the process, one
// stops the machine, one refuses the write, and one damages the file. Only the checkpoint that was
// being written may be lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "common/base/text.h"
#include "common/checkpoint/store.h"
#include "tests/common/base/memory_storage.h"

namespace tern::checkpoint {
namespace {

using Steps = std::set<uint64_t>;

constexpr uint64_t kRun = 7, kLast = 7;
constexpr Keep kKeep{.of_all = 2, .shard = 2};
const auto kBegun = std::chrono::system_clock::from_time_t(1795386361);

Owner OwnerIn(const std::string& folder) {
  return {folder, "shard.0.lane.1", 2, 11, 12, 13, "seed: 1"};
}
Owner OurOwner() { return OwnerIn("out/checkpoints/shard.0.lane.1"); }

// Goes through all sequences of answers to Choose, one sequence after the other.
class EveryChoice {
 public:
  uint64_t operator()(uint64_t n) {
    if (at_ == row_.size()) row_.push_back({0, n});
    return row_[at_++].first;
  }
  bool Next() {
    at_ = 0;
    while (!row_.empty() && ++row_.back().first == row_.back().second) row_.pop_back();
    return !row_.empty();
  }

 private:
  std::vector<std::pair<uint64_t, uint64_t>> row_;  // an answer, and how many there are
  size_t at_ = 0;
};

std::vector<float> ValuesOf(uint64_t run, uint64_t step) {
  return std::vector<float>(16, static_cast<float>(100 * run + step));
}
Kind KindOfStep(uint64_t step) { return step % 3 == 0 ? Kind::kOfAll : Kind::kShard; }

Status WriteOne(Store& store, uint64_t run, uint64_t step, Kind kind) {
  const std::vector<float> values = ValuesOf(run, step);
  return store.Write({run, step, step}, kind, {{"w", {values.size()}, values}}, {});
}

// The steps of a run's complete checkpoints, as the next process finds them. Checks their values.
Steps WholeOf(const Owner& owner, uint64_t run, MemoryStorage& storage) {
  Store store(owner, kKeep, storage);
  (void)store.Open();
  Steps steps;
  for (const Point& point : store.points()) {
    if (point.run != run) continue;
    const auto file = store.Read(point);
    EXPECT_TRUE(file.ok()) << file.status().message();
    if (!file.ok()) continue;
    EXPECT_EQ(file->tensors.at(0).values, ValuesOf(run, point.step));
    steps.insert(point.step);
  }
  return steps;
}

// The checkpoints that must be on the disk after the process has stopped.
struct Promise {
  Steps sure;
  bool ended = false;  // it wrote everything
};

Steps OfStore(const Store& store) {
  Steps steps;
  for (const Point& point : store.points()) steps.insert(point.step);
  return steps;
}

// Continues from the existing checkpoints and writes those up to kLast. The last is written twice:
// as a shard's own, then as one of all daemons, as at the end of a job.
Promise WriteAll(MemoryStorage& storage) {
  Promise promise;
  Store store(OurOwner(), kKeep, storage);
  (void)store.Open();
  promise.sure = OfStore(store);
  (void)store.Begin(kRun, false, kBegun);
  const uint64_t from = store.points().empty() ? 1 : store.points().back().step + 1;
  for (uint64_t step = from; step <= kLast + 1 && !storage.stopped(); ++step) {
    const Kind kind = step > kLast ? Kind::kOfAll : KindOfStep(step);
    const Status written = WriteOne(store, kRun, std::min(step, kLast), kind);
    const Steps now = OfStore(store);
    if (written.ok() && !storage.stopped()) promise.sure = now;
    // The write succeeded, and the process stopped later, when it removed old ones: these may be
    // gone.
    if (written.ok() && storage.stopped())
      std::erase_if(promise.sure, [&](uint64_t one) { return !now.contains(one); });
  }
  promise.ended = !storage.stopped();
  return promise;
}

void ExpectKept(const Promise& promise, const Steps& whole, const std::string& where) {
  for (const uint64_t step : promise.sure)
    EXPECT_TRUE(whole.contains(step)) << where << ": the checkpoint of step " << step << " is lost";
}

// Stops a process in each of its changes, restarts it with `restart`, and checks what is left.
// Returns the number of changes.
template <typename Restart>
uint64_t StopEverywhere(const Restart& restart) {
  for (uint64_t stop = 0;; ++stop) {
    EveryChoice choices;
    do {
      MemoryStorage storage;
      const Choose choose = [&](uint64_t n) { return choices(n); };
      storage.StopAfter(stop, choose);
      const Promise promise = WriteAll(storage);
      if (promise.ended) return stop;
      restart(storage, choose);
      ExpectKept(promise, WholeOf(OurOwner(), kRun, storage), Cat("change ", stop));
      EXPECT_TRUE(WriteAll(storage).ended);
      const Steps end = WholeOf(OurOwner(), kRun, storage);
      EXPECT_TRUE(end.contains(kLast) && end.contains(6)) << "change " << stop;
      if (testing::Test::HasFailure()) return stop;
    } while (choices.Next());
  }
}

TEST(Torn, AProcessThatDiesInAnyChangeLosesNoOtherCheckpoint) {
  const uint64_t changes =
      StopEverywhere([](MemoryStorage& storage, const Choose&) { storage.RestartProcess(); });
  EXPECT_GT(changes, 6 * kLast);
}

TEST(Torn, AMachineThatLosesItsPowerInAnyChangeLosesNoOtherCheckpoint) {
  const uint64_t changes = StopEverywhere(
      [](MemoryStorage& storage, const Choose& choose) { storage.RestartMachine(choose); });
  EXPECT_GT(changes, 6 * kLast);
}

// From some change on, the disk is full: for one change, for three, or for ever.
TEST(Torn, ARefusedWriteLosesNoOtherCheckpoint) {
  uint64_t refused = 0;
  for (const uint64_t count : {uint64_t{1}, uint64_t{3}, UINT64_MAX}) {
    for (uint64_t from = 0; !testing::Test::HasFailure(); ++from) {
      MemoryStorage storage;
      storage.RefuseAfter(from, count);
      const Promise promise = WriteAll(storage);
      ASSERT_TRUE(promise.ended);
      const Steps whole = WholeOf(OurOwner(), kRun, storage);
      EXPECT_EQ(whole, promise.sure) << "change " << from;
      if (count == 1) {
        EXPECT_GE(whole.size(), 3u) << "change " << from;
      }
      storage.RestartProcess();
      EXPECT_TRUE(WriteAll(storage).ended);
      EXPECT_TRUE(WholeOf(OurOwner(), kRun, storage).contains(kLast)) << "change " << from;
      if (from > storage.changes()) break;
      ++refused;
    }
  }
  EXPECT_GT(refused, 3 * 6 * kLast);
}

// A disk claims to have flushed a file but loses half of it. Only that file's checkpoint is lost.
TEST(Torn, ATornFileLosesItsOwnCheckpointOnly) {
  uint64_t torn = 0;
  for (uint64_t at = 0;; ++at) {
    const uint64_t stop = at / 2;
    MemoryStorage storage;
    storage.StopAfter(stop, [](uint64_t n) { return n - 1; });
    const Promise promise = WriteAll(storage);
    if (promise.ended) break;
    storage.RestartProcess();
    const Steps before = WholeOf(OurOwner(), kRun, storage);
    storage.Tear(at % 2);
    const Steps after = WholeOf(OurOwner(), kRun, storage);
    EXPECT_GE(after.size() + 1, before.size()) << "change " << stop;
    torn += after.size() < before.size();
    EXPECT_TRUE(WriteAll(storage).ended);
    EXPECT_TRUE(WholeOf(OurOwner(), kRun, storage).contains(kLast)) << "change " << stop;
    if (HasFailure()) break;
  }
  EXPECT_GT(torn, 2 * kLast);
}

// A new run begins in the folder: the other run's checkpoints are moved away one by one, while its
// own stays.
TEST(Torn, WhatIsPutAsideLosesOneAtMost) {
  const auto make = [](MemoryStorage& storage) {
    Store store(OurOwner(), {.of_all = 9}, storage);
    (void)store.Open();
    for (uint64_t step = 1; step <= 3; ++step) (void)WriteOne(store, kRun, step, Kind::kOfAll);
    (void)WriteOne(store, kRun + 1, 4, Kind::kOfAll);
  };
  const Owner aside = OwnerIn(OurOwner().folder + ".2026-11-22T22-26-01");
  for (const bool power : {false, true}) {
    bool all = false;
    for (uint64_t stop = 0; !all && !testing::Test::HasFailure(); ++stop) {
      EveryChoice choices;
      do {
        MemoryStorage storage;
        const Choose choose = [&](uint64_t n) { return choices(n); };
        make(storage);
        storage.StopAfter(stop, choose);
        Store store(OurOwner(), {.of_all = 9}, storage);
        (void)store.Open();
        (void)store.Begin(kRun + 1, false, kBegun);
        all = !storage.stopped();
        power ? storage.RestartMachine(choose) : storage.RestartProcess();
        const Steps kept = WholeOf(OurOwner(), kRun + 1, storage);
        EXPECT_EQ(kept, Steps{4}) << "change " << stop;
        Steps both = WholeOf(OurOwner(), kRun, storage);
        both.merge(WholeOf(aside, kRun, storage));
        EXPECT_GE(both.size(), all ? 3u : 2u) << "change " << stop;
      } while (choices.Next() && !testing::Test::HasFailure());
    }
  }
}

// A run goes back to an older checkpoint: the newer ones are void, and must not come back.
TEST(Torn, WhatARunHasGoneBackBehindDoesNotComeBack) {
  EveryChoice choices;
  do {
    MemoryStorage storage;
    (void)WriteAll(storage);
    {
      Store store(OurOwner(), kKeep, storage);
      (void)store.Open();
      ASSERT_TRUE(store.Begin(kRun, false, kBegun).ok());
      store.RemoveAfter({kRun, 6, 6});
    }
    storage.RestartMachine([&](uint64_t n) { return choices(n); });
    ASSERT_FALSE(WholeOf(OurOwner(), kRun, storage).contains(kLast));
  } while (choices.Next());
}

}  // namespace
}  // namespace tern::checkpoint
