// A process writes checkpoints to a simulated disk. At each of its changes to the disk, one test
// stops the process, one stops the machine, one refuses the write because the disk is full, and one
// damages the file. Only the checkpoint that is being written, moved or damaged may be lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "common/base/text.h"
#include "common/checkpoint/names.h"
#include "common/checkpoint/store.h"
#include "tests/common/base/memory_storage.h"

namespace tern::checkpoint {
namespace {

using Steps = std::set<uint64_t>;

constexpr uint64_t kRun = 7, kLastStep = 7;
constexpr NumKept kNumKept{.num_of_all = 2, .num_of_shard = 2};
const auto kBeginTime = std::chrono::system_clock::from_time_t(1795386361);

Owner OwnerIn(const std::string& folder) {
  return {folder, "shard.0.lane.1", 2, 11, 12, 13, "seed: 1"};
}
Owner OurOwner() { return OwnerIn("out/checkpoints/shard.0.lane.1"); }

// A Chooser (a function that chooses a number below its argument n) that goes through all sequences
// of answers. BeginNextSequence() begins the next one, and returns false after the last.
class AllChoices {
 public:
  uint64_t operator()(uint64_t n) {
    if (position_ == sequence_.size()) sequence_.push_back({0, n});
    return sequence_[position_++].first;
  }
  bool BeginNextSequence() {
    position_ = 0;
    while (!sequence_.empty() && ++sequence_.back().first == sequence_.back().second)
      sequence_.pop_back();
    return !sequence_.empty();
  }

 private:
  // (answer, number of possible answers) of each call
  std::vector<std::pair<uint64_t, uint64_t>> sequence_;
  size_t position_ = 0;
};

std::vector<float> ValuesOf(uint64_t run, uint64_t step) {
  return std::vector<float>(16, static_cast<float>(100 * run + step));
}
Kind KindOfStep(uint64_t step) { return step % 3 == 0 ? Kind::kOfAll : Kind::kShard; }

Status WriteCheckpoint(Store& store, uint64_t run, uint64_t step, Kind kind) {
  const std::vector<float> values = ValuesOf(run, step);
  return store.Write({run, step, step}, kind, {{"w", {values.size()}, values}}, {});
}

// The steps of a run's complete checkpoints, as the next process finds them. Checks the
// checkpoints' values.
Steps CompleteSteps(const Owner& owner, uint64_t run, MemoryStorage& storage) {
  Store store(owner, kNumKept, storage);
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

// What the process has done before it stopped, and which checkpoints must then be on the disk.
struct Expectation {
  Steps required_steps;    // steps of checkpoints that must be complete
  bool has_ended = false;  // whether the process wrote all its checkpoints before it stopped
};

Steps StepsIn(const Store& store) {
  Steps steps;
  for (const Point& point : store.points()) steps.insert(point.step);
  return steps;
}

// Continues from the existing checkpoints and writes those of the later steps up to kLastStep. The
// checkpoint of kLastStep is written twice: as a shard's own, then as one of all daemons, as at the
// end of a job.
Expectation WriteAllCheckpoints(MemoryStorage& storage) {
  Expectation expectation;
  Store store(OurOwner(), kNumKept, storage);
  (void)store.Open();
  expectation.required_steps = StepsIn(store);
  (void)store.Begin(kRun, false, kBeginTime);
  const uint64_t first_step = store.points().empty() ? 1 : store.points().back().step + 1;
  for (uint64_t step = first_step; step <= kLastStep + 1 && !storage.stopped(); ++step) {
    const Kind kind = step > kLastStep ? Kind::kOfAll : KindOfStep(step);
    const Status write_status = WriteCheckpoint(store, kRun, std::min(step, kLastStep), kind);
    const Steps steps_in_store = StepsIn(store);
    if (write_status.ok() && !storage.stopped()) expectation.required_steps = steps_in_store;
    // If the write succeeded but the process stopped, the process was removing old checkpoints.
    // These old ones may be gone.
    if (write_status.ok() && storage.stopped())
      std::erase_if(expectation.required_steps, [&](uint64_t required_step) {
        return !steps_in_store.contains(required_step);
      });
  }
  expectation.has_ended = !storage.stopped();
  return expectation;
}

void ExpectKept(const Expectation& expectation, const Steps& complete_steps,
                const std::string& change) {
  for (const uint64_t step : expectation.required_steps)
    EXPECT_TRUE(complete_steps.contains(step))
        << change << ": the checkpoint of step " << step << " is lost";
}

// For each change to the disk: stops a process in that change, restarts the process or the machine
// with `restart`, and checks what is left. Returns the number of changes.
template <typename Restart>
uint64_t StopInEveryChange(const Restart& restart) {
  for (uint64_t stop_change = 0;; ++stop_change) {
    AllChoices choices;
    do {
      MemoryStorage storage;
      const Chooser choose = [&](uint64_t n) { return choices(n); };
      storage.StopAfter(stop_change, choose);
      const Expectation expectation = WriteAllCheckpoints(storage);
      if (expectation.has_ended) return stop_change;
      restart(storage, choose);
      ExpectKept(expectation, CompleteSteps(OurOwner(), kRun, storage),
                 Cat("change ", stop_change));
      EXPECT_TRUE(WriteAllCheckpoints(storage).has_ended);
      const Steps final_steps = CompleteSteps(OurOwner(), kRun, storage);
      EXPECT_TRUE(final_steps.contains(kLastStep) && final_steps.contains(6))
          << "change " << stop_change;
      if (testing::Test::HasFailure()) return stop_change;
    } while (choices.BeginNextSequence());
  }
}

TEST(Torn, AProcessThatDiesInAnyChangeLosesNoOtherCheckpoint) {
  const uint64_t num_changes = StopInEveryChange([](MemoryStorage& storage, const Chooser&) {
    storage.RestartProcess();
    Store next(OurOwner(), kNumKept, storage);
    EXPECT_EQ(next.Open(), std::vector<std::string>())
        << "a file was left that is taken as damaged";
  });
  EXPECT_GT(num_changes, 6 * kLastStep);
}

TEST(Torn, AMachineThatLosesItsPowerInAnyChangeLosesNoOtherCheckpoint) {
  const uint64_t num_changes = StopInEveryChange(
      [](MemoryStorage& storage, const Chooser& choose) { storage.RestartMachine(choose); });
  EXPECT_GT(num_changes, 6 * kLastStep);
}

// A process dies in any change. The next process finds some checkpoints and offers them to the job.
// These survive if the machine loses its power then.
TEST(Torn, WhatTheNextProcessFindsSurvivesALossOfPower) {
  bool has_ended = false;
  for (uint64_t stop_change = 0; !has_ended; ++stop_change) {
    AllChoices choices;
    do {
      MemoryStorage storage;
      const Chooser choose = [&](uint64_t n) { return choices(n); };
      storage.StopAfter(stop_change, choose);
      has_ended = WriteAllCheckpoints(storage).has_ended;
      storage.RestartProcess();
      const Steps found_steps = CompleteSteps(OurOwner(), kRun, storage);
      storage.RestartMachine(choose);
      ASSERT_EQ(CompleteSteps(OurOwner(), kRun, storage), found_steps) << "change " << stop_change;
    } while (choices.BeginNextSequence());
  }
}

// In each trial, the disk is full from another change on: for one change, for three, or for all
// that follow.
TEST(Torn, ARefusedWriteLosesNoOtherCheckpoint) {
  uint64_t num_trials = 0;
  for (const uint64_t num_refused : {uint64_t{1}, uint64_t{3}, UINT64_MAX}) {
    for (uint64_t first_refused = 0; !testing::Test::HasFailure(); ++first_refused) {
      MemoryStorage storage;
      storage.RefuseAfter(first_refused, num_refused);
      const Expectation expectation = WriteAllCheckpoints(storage);
      ASSERT_TRUE(expectation.has_ended);
      const Steps complete_steps = CompleteSteps(OurOwner(), kRun, storage);
      EXPECT_EQ(complete_steps, expectation.required_steps) << "change " << first_refused;
      if (num_refused == 1) {
        EXPECT_GE(complete_steps.size(), 3u) << "change " << first_refused;
      }
      storage.RestartProcess();
      EXPECT_TRUE(WriteAllCheckpoints(storage).has_ended);
      EXPECT_TRUE(CompleteSteps(OurOwner(), kRun, storage).contains(kLastStep))
          << "change " << first_refused;
      if (first_refused > storage.num_changes()) break;
      ++num_trials;
    }
  }
  EXPECT_GT(num_trials, 3 * 6 * kLastStep);
}

// A disk claims to have flushed a file but loses half of it. Only that file's checkpoint is lost.
TEST(Torn, ATornFileLosesItsOwnCheckpointOnly) {
  uint64_t num_lost = 0;
  for (uint64_t trial = 0;; ++trial) {
    const uint64_t stop_change = trial / 2;
    MemoryStorage storage;
    storage.StopAfter(stop_change, [](uint64_t n) { return n - 1; });
    const Expectation expectation = WriteAllCheckpoints(storage);
    if (expectation.has_ended) break;
    storage.RestartProcess();
    const Steps steps_before = CompleteSteps(OurOwner(), kRun, storage);
    storage.TearRecentFile(trial % 2);
    const Steps steps_after = CompleteSteps(OurOwner(), kRun, storage);
    EXPECT_GE(steps_after.size() + 1, steps_before.size()) << "change " << stop_change;
    num_lost += steps_after.size() < steps_before.size();
    EXPECT_TRUE(WriteAllCheckpoints(storage).has_ended);
    EXPECT_TRUE(CompleteSteps(OurOwner(), kRun, storage).contains(kLastStep))
        << "change " << stop_change;
    if (HasFailure()) break;
  }
  EXPECT_GT(num_lost, 2 * kLastStep);
}

// A new run begins in the folder. The previous run's checkpoints are moved away one by one, and the
// new run's checkpoint stays. A stop during the moves loses at most one checkpoint.
TEST(Torn, MovingCheckpointsAwayLosesOneAtMost) {
  const auto write_both_runs = [](MemoryStorage& storage) {
    Store store(OurOwner(), {.num_of_all = 9}, storage);
    (void)store.Open();
    for (uint64_t step = 1; step <= 3; ++step)
      (void)WriteCheckpoint(store, kRun, step, Kind::kOfAll);
    (void)WriteCheckpoint(store, kRun + 1, 4, Kind::kOfAll);
  };
  const Owner owner_of_moved_files = OwnerIn(OurOwner().folder + ".2026-11-22T22-26-01");
  for (const bool power_fails : {false, true}) {
    bool all_moved = false;
    for (uint64_t stop_change = 0; !all_moved && !testing::Test::HasFailure(); ++stop_change) {
      AllChoices choices;
      do {
        MemoryStorage storage;
        const Chooser choose = [&](uint64_t n) { return choices(n); };
        write_both_runs(storage);
        storage.StopAfter(stop_change, choose);
        Store store(OurOwner(), {.num_of_all = 9}, storage);
        (void)store.Open();
        (void)store.Begin(kRun + 1, false, kBeginTime);
        all_moved = !storage.stopped();
        power_fails ? storage.RestartMachine(choose) : storage.RestartProcess();
        const Steps steps_of_new_run = CompleteSteps(OurOwner(), kRun + 1, storage);
        EXPECT_EQ(steps_of_new_run, Steps{4}) << "change " << stop_change;
        for (uint64_t step = 1; step <= 3 && !power_fails; ++step) {
          const std::string name = Cat("/", kNamePrefix, step, kStateSuffix);
          EXPECT_TRUE(storage.Exists(OurOwner().folder + name) ||
                      storage.Exists(owner_of_moved_files.folder + name))
              << "change " << stop_change << ": the state of step " << step << " is removed";
        }
        Steps steps_found = CompleteSteps(OurOwner(), kRun, storage);
        steps_found.merge(CompleteSteps(owner_of_moved_files, kRun, storage));
        EXPECT_GE(steps_found.size(), all_moved ? 3u : 2u) << "change " << stop_change;
      } while (choices.BeginNextSequence() && !testing::Test::HasFailure());
    }
  }
}

// A run goes back to an older checkpoint. The newer ones are removed, and a restart of the machine
// must not bring them back.
TEST(Torn, RemovedCheckpointsDoNotComeBack) {
  AllChoices choices;
  do {
    MemoryStorage storage;
    (void)WriteAllCheckpoints(storage);
    {
      Store store(OurOwner(), kNumKept, storage);
      (void)store.Open();
      ASSERT_TRUE(store.Begin(kRun, false, kBeginTime).ok());
      ASSERT_TRUE(store.RemoveAfter({kRun, 6, 6}, kBeginTime).ok());
    }
    storage.RestartMachine([&](uint64_t n) { return choices(n); });
    ASSERT_FALSE(CompleteSteps(OurOwner(), kRun, storage).contains(kLastStep));
  } while (choices.BeginNextSequence());
}

}  // namespace
}  // namespace tern::checkpoint
