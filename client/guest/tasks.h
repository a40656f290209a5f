// What a program is to do next that asks for it: that of a module's job (train.compute: module),
// and one whose checkpoints Tern keeps. The training thread gives one task after another, and a
// thread of the program takes them.
#pragma once

#include <cstdint>
#include <optional>

#include "client/exchange/port.h"
#include "client/train/compute.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tern::client {

struct GuestTask {
  enum class Type { kNone, kStep, kEvaluate, kSave, kLoad, kOver };
  Type type = Type::kNone;
  uint64_t step = 0;  // of kStep, from 1: compute the gradient, and push every tensor
  // Of kEvaluate: evaluate part `part` of `num_parts` of the test samples, then SetScore.
  uint32_t part = 0;
  uint32_t num_parts = 0;
  // kSave: give your state, by SetState. kLoad: go on from this one.
  Bytes state = {};
};

class Tasks {
 public:
  // `wake` outlives this object: it gets SamplesReady when the program wants a task, and at the
  // end.
  explicit Tasks(Events& wake) : wake_(wake) {}

  // --- The program's thread.

  // Waits up to `patience` for the next task; kNone: there is none yet. kOver after the job's end,
  // or its error.
  Result<GuestTask> Next(Time patience);
  // The task that Next returned last and that is not finished; kNone: there is none.
  GuestTask taken() const;
  // The program has done what it took.
  void FinishTaken();
  // Do nothing if the task that the program has is not kEvaluate, or kSave.
  void SetScore(const Score& score);
  void SetState(Bytes state);

  // --- The training thread.

  // Whether the program waits for a task, or the job has ended.
  bool IsWanted() const;
  void Give(const GuestTask& task);
  // Takes back the task that was given last. Returns false if the program has it.
  bool TakeBack();
  // Give kEvaluate, kSave and kLoad, and wait until the program has done it. Nullopt, and false,
  // after the end.
  std::optional<Score> Evaluate(const GuestTask& task);
  std::optional<Bytes> Save();
  bool Load(Bytes state);

  // --- Any thread. The first call counts.
  void End(const Status& status);

 private:
  // Gives the task and waits until it is done. Returns false after the end.
  bool Perform(const GuestTask& task);

  Events& wake_;
  mutable Mutex mutex_;
  Condition changed_;
  bool is_wanted_ TERN_GUARDED_BY(mutex_) = false;
  GuestTask given_ TERN_GUARDED_BY(mutex_);  // kNone if the program has taken it
  GuestTask taken_ TERN_GUARDED_BY(mutex_);
  bool is_done_ TERN_GUARDED_BY(mutex_) = false;  // what Perform has given
  Score score_ TERN_GUARDED_BY(mutex_);
  Bytes state_ TERN_GUARDED_BY(mutex_);
  std::optional<Status> end_status_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::client
