// A worker's training, whatever the algorithm: waits for its place in the job, trains, compares and
// evaluates with the other workers from time to time, gives its state to workers that need it,
// ends.
//
//   waiting for Ready --> training --last step--> ending --last word--> serving --> job is over
//
//   training  { if figures are due: settle, exchange them;  step }*
//   ending    settles, exchanges the last figures, writes the weights
//   serving   gives its state to other workers until the job is over
//
// In any of these, if State arrives or all go back to an earlier round, the worker installs that
// state, resets everything else of its own, and is waiting for Ready again. To resume from its own
// checkpoint it loads it, reports that, and waits for Ready. It writes checkpoints between two
// steps, with no exchange open (checkpoints.h).
//
// Without rounds (asgd and its kin) there is nothing to compare. At the end all workers wait for
// each other, so that the last evaluation has everybody's pushes. There the servers' checkpoints
// are the job's; a worker's hold the statistics of batch norms and what it trains privately.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include "client/exchange/observer.h"
#include "client/exchange/port.h"
#include "client/exchange/progress.h"
#include "client/exchange/sums.h"
#include "client/train/algorithm.h"
#include "client/train/checkpoints.h"
#include "client/train/compute.h"
#include "client/train/figures.h"
#include "client/train/gradient.h"
#include "client/train/replica.h"
#include "client/train/replica_state.h"
#include "common/base/status.h"
#include "common/update/schedule.h"
#include "setup/setup.h"

namespace tern::client {

class Trainer {
 public:
  struct Parts {
    const setup::Setup& setup;
    uint32_t rank;
    uint64_t steps;
    Compute& compute;
    Replica& replica;
    Coder& coder;
    Port& port;
    Events& events;
    Progress& progress;
    Checkpoints* checkpoints = nullptr;  // null: the job has none
    Observer* observer = nullptr;        // null: nothing is shown
  };
  // kBadJob for an unknown algorithm or schedule.
  static Result<std::unique_ptr<Trainer>> Make(const Parts& parts);

  // Trains to the end of the job and calls Port::Finish. Returns the status to exit with.
  Status Run();

 private:
  Trainer(const Parts& parts, update::Schedule schedule);
  Status Train();
  using Beginning = std::variant<StateArrived, WentBack, ResumeWanted>;
  Status Restart();
  // Returns to Run, which begins again from there.
  Status RestartFrom(Beginning from);
  Status LoadCheckpoint(const pb::Checkpoint& from);
  // Without rounds, in a new process: restores its private state from its newest checkpoint of this
  // run, whatever clock the servers have counted.
  Status RestoreLocalCheckpoint();
  // Restores the parts of the loaded checkpoint that need an algorithm that has begun.
  Status RestorePrivateState();
  Status WriteCheckpointIfDue();
  Status WriteCheckpoint();
  void CopyScalers();
  Status TrainSteps();
  Status EndTogether();
  // kDiverged where the last evaluation finds it is not.
  Status LossIsFinite() const;
  void ShowProgress();
  // Waits for open exchanges; counts the time as that of the steps that opened them.
  Status Drain();
  // Handles events until `done` returns true, or returns the error that ends the worker.
  Status WaitUntil(const std::function<bool()>& done);
  // After the last word: serves State, which a worker lost near the end may need. Returns whether
  // the job continues, from an earlier round.
  bool ServeUntilJobEnds();
  Status MakeAlgorithm();
  // Handles the events that have arrived: a late worker learns from them that rounds have closed.
  Status HandleArrivedEvents();
  Status GiveState();
  Status Handle(Event event);
  Status OnAnswer(const Answer& answer);
  void StopAfter(uint64_t round);
  // `which`: a protocol::Figures; `last`: the job ends with them.
  Status ExchangeFigures(uint32_t which, bool last);

  Parts p_;
  update::Schedule schedule_;
  Gradient gradient_;
  ReplicaState state_;
  Sums sums_;
  Figures figures_;
  const Context context_;
  const bool has_rounds_;
  std::unique_ptr<Algorithm> algorithm_;
  std::optional<Beginning> anew_;               // where to begin again
  std::optional<tensors::TensorFile> resumed_;  // loaded, until all of it is restored
  std::optional<uint64_t> ready_;  // the round to continue after, once the first step may begin
  uint64_t stop_after_ = 0;        // the job's last round, once it is decided early
  uint64_t last_step_;
  uint64_t run_ = 0;  // of the job
  uint64_t steps_done_ = 0;
  uint64_t checkpointed_at_ = 0;  // steps done when a checkpoint was last due
  uint64_t compared_at_ = 0;      // applied round of the newest figures
  bool figures_answered_ = false;
  std::vector<std::vector<float>> scalers_;  // as Sums::SaveScalers, if they travel with a state
  std::optional<Status> leave_;              // asked for by a signal
  Status end_checkpoint_;  // kCannotWrite where there should be one of the last step, and is none
};

}  // namespace tern::client
