// A worker's training, whatever the algorithm: waits for its place in the job, does its steps,
// compares and evaluates with the other workers now and then, gives its state to whoever needs it,
// ends.
//
//   waiting for Ready --> { figures due? -> settle, exchange them;  step }* --> settle, last
//   figures, weights --> last word --> serving state until the job is over
//
//   where it goes on from a checkpoint of its own, it puts that in place, says so, and waits for
//   Ready; it writes them between two steps, with nothing under way (checkpoints.h)
//
//   anywhere: State arrived, or all go back to an earlier round --> put in place what stands in its
//   stead, everything else of this worker's afresh --> waiting for Ready
//
// Without rounds (asgd and its kin) there is nothing to compare; at the end all wait for each
// other, so that the last evaluation is of the weights that have everybody's pushes in them. The
// servers' checkpoints are the job's there; a worker's have batch norms' statistics and what it
// trains on its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "common/update/schedule.h"
#include "worker/data/batches.h"
#include "worker/train/algorithm.h"
#include "worker/train/board.h"
#include "worker/train/checkpoints.h"
#include "worker/train/compute.h"
#include "worker/train/evaluate.h"
#include "worker/train/figures.h"
#include "worker/train/gradient.h"
#include "worker/train/port.h"
#include "worker/train/progress.h"
#include "worker/train/replica.h"
#include "worker/train/sums.h"

namespace tern::train {

class Trainer {
 public:
  struct Parts {
    const setup::Setup& setup;
    uint32_t rank;
    uint64_t steps;
    const data::Batches& batches;  // copied for the prefetcher when the first step is known
    Compute& compute;
    Evaluate& evaluate;
    Replica& replica;
    Coder& coder;
    Port& port;
    Events& events;
    Progress& progress;
    Checkpoints* checkpoints = nullptr;  // where the job has some
    Board* board = nullptr;              // null: nothing is shown
  };
  // kBadJob for an algorithm or schedule that is not known.
  static Result<std::unique_ptr<Trainer>> Make(const Parts& parts);

  // Trains to the end of the job; says the last word on the port. The status to leave with.
  Status Run();

 private:
  Trainer(const Parts& parts, update::Schedule schedule);
  Status Train();
  using Beginning = std::variant<StateArrived, WentBack, ResumeWanted>;
  Status BeginAnew();
  // Back to Run, to begin from there.
  Status Unwind(Beginning from);
  Status LoadCheckpoint(const pb::Checkpoint& from);
  // Without rounds, of a new process: what its newest checkpoint of this run has, whatever the
  // clock that the servers have counted it to.
  Status TakeUpOwn();
  // What only an algorithm that has begun can take, of the checkpoint that was loaded.
  Status RestoreOwn();
  Status WriteCheckpointIfDue();
  Status WriteCheckpoint();
  void CopyScalers();
  Status TrainSteps();
  Status EndTogether();
  // kDiverged where the last evaluation finds it is not.
  Status LossIsFinite() const;
  void ShowProgress();
  // What steps left under way belongs to the time that they took.
  Status Settle();
  // Takes events until `done`; the error that ends the worker otherwise.
  Status WaitUntil(const std::function<bool()>& done);
  // After the last word: a worker that was lost near the end and is back needs State from one that
  // is done. Whether the job goes on, from an earlier round.
  bool GoesOnAfterTheEnd();
  Status MakeAlgorithm();
  // The same, of what is there: who is late sees by it that rounds have closed without it.
  Status HandleWhatCame();
  Status GiveState();
  Status Handle(Event event);
  Status OnAnswer(const Answer& answer);
  void StopAfter(uint64_t round);
  // `which`: a protocol::Figures; `last`: the job ends with them.
  Status ExchangeFigures(uint32_t which, bool last);

  Parts p_;
  update::Schedule schedule_;
  Gradient gradient_;
  Sums sums_;
  Figures figures_;
  const Context context_;
  const bool has_rounds_;
  std::unique_ptr<Algorithm> algorithm_;
  std::optional<Beginning> anew_;              // to begin from
  std::optional<models::TensorFile> resumed_;  // loaded, until it is all in place
  std::optional<uint64_t> ready_;  // the round to go on after, once the first step may begin
  uint64_t stop_after_ = 0;        // the job's last round, once that is decided early
  uint64_t last_step_;
  uint64_t run_ = 0;  // of the job
  uint64_t steps_done_ = 0;
  uint64_t checkpointed_at_ = 0;  // steps done when one was due last
  uint64_t compared_at_ = 0;      // applied round of the newest figures
  bool figures_answered_ = false;
  std::vector<std::vector<float>> scalers_;  // as Sums::SaveScalers, where they travel with a state
  std::optional<Status> leave_;              // asked for by a signal
  Status end_checkpoint_;  // kCannotWrite where there should be one of the last step, and is none
};

}  // namespace tern::train
