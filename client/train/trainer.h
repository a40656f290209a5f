// Runs a worker's training, with any algorithm: waits until it may start, trains, compares its
// replica with the other workers' and evaluates it (figures.h), sends its State (all that another
// worker needs to continue) to workers that need it, and ends.
//
//   waiting --ReadyToTrain--> training --last step--> ending --Port::Finish--> serving --> end
//
//   waiting   until the event ReadyToTrain says that training may begin
//   training  repeats: if figures (the workers' metrics) are due, waits for open exchanges
//             ("drains") and exchanges figures; then makes a step
//   ending    drains, exchanges the last figures, writes the weights, also if damaged test images
//             have kept a worker from evaluating them: the job then ends with that error
//   serving   sends its State to other workers until the job is over
//
// In every phase the job may go back to an earlier round; before `serving`, a State may arrive,
// too. The worker then installs that state, resets all other state of its own, and waits for
// ReadyToTrain again. To resume from its own checkpoint, it loads the checkpoint, reports that, and
// waits for ReadyToTrain. It writes checkpoints between two steps, when no exchange is open
// (checkpoints.h).
//
// In jobs without rounds (asgd and others), replicas are not compared. At the end all workers wait
// for each other, so that the last evaluation includes all pushes. The state of the job comes from
// the servers' checkpoints; a worker's checkpoint only restores its batch-norm statistics and
// private state.
//
// Threads: the compute thread.
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
#include "client/train/evaluation_files.h"
#include "client/train/figures.h"
#include "client/train/global_batch.h"
#include "client/train/gradient.h"
#include "client/train/replica.h"
#include "client/train/replica_state.h"
#include "client/train/traced_steps.h"
#include "common/base/status.h"
#include "common/update/schedule.h"
#include "setup/setup.h"

namespace tern::client {

class Trainer {
 public:
  // All references and pointers outlive the trainer.
  struct Dependencies {
    const setup::Setup& setup;
    uint32_t rank;
    uint64_t steps;  // the job's length in steps
    Compute& compute;
    Replica& replica;
    Coder& coder;
    Port& port;
    Events& events;
    Progress& progress;
    Checkpoints* checkpoints = nullptr;  // null: the job has no checkpoints
    Observer* observer = nullptr;        // null: there is no observer
  };
  // kBadJob for an unknown algorithm or schedule.
  static Result<std::unique_ptr<Trainer>> Make(const Dependencies& dependencies);

  // Trains to the end of the job and calls Port::Finish. Returns the status with which the process
  // exits.
  Status Run();

 private:
  Trainer(const Dependencies& dependencies, update::Schedule schedule);
  // The phases `waiting`, `training` and `ending`.
  Status Train();
  // An event that makes this worker start again from another state.
  using RestartEvent = std::variant<StateArrived, WentBack, ResumeWanted>;
  // Installs the state that the event in pending_restart_ names.
  Status Restart();
  // Sets pending_restart_ and returns an error. The error makes Train return to Run, which then
  // restarts.
  Status RestartFrom(RestartEvent event);
  Status LoadCheckpoint(const pb::Checkpoint& checkpoint);
  // In a job without rounds, in a new process: loads this worker's private state from its newest
  // checkpoint of the run, even if the servers have counted later pushes of this worker.
  Status RestoreLocalCheckpoint();
  // Restores the private state of the algorithm and the codecs from the loaded checkpoint. REQUIRES
  // that Algorithm::Begin was called.
  Status RestorePrivateState();
  Status WriteCheckpointIfDue();
  Status WriteCheckpoint();
  // Copies to state_scalers_ the scalers (codecs' scale factors) that later rounds need.
  void CopyScalers();
  Status TrainSteps();
  // Waits for open exchanges, and exchanges the last figures (metrics) with all workers.
  Status EndTogether();
  // Handles events until `is_done` returns true, or returns the error that ends the worker.
  Status WaitUntil(const std::function<bool()>& is_done);
  // The phase `serving`: sends State, because a worker that was lost near the end may still need
  // it. Returns an error if the state cannot be sent, and if the job goes back, so that this worker
  // must restart: then pending_restart_ is set.
  Status ServeUntilJobEnds();
  Status MakeAlgorithm();
  // Handles events until `is_done`, as WaitUntil, while a foreign program computes.
  Status AwaitProgram(const std::function<bool()>& is_done);
  // Handles the events that have arrived, without waiting. A late worker learns from them that
  // rounds have closed.
  Status HandleArrivedEvents();
  // Sends this worker's State through the port.
  Status SendState();
  Status HandleEvent(Event event);
  Status OnAnswer(const Answer& answer);
  // Ends the training where the record of evaluations says so (train.stop_when). Call it when
  // training begins, because a State or a checkpoint has a record, and after an evaluation.
  void StopAsRecorded(bool was_evaluated);
  // Ends the training after `stop_round` (without rounds: after the current step), and writes a
  // checkpoint, which was asked for, after `save_round`. 0 changes nothing.
  void StopOrSaveAfter(uint64_t stop_round, uint64_t save_round);
  // Sends this worker's figures and waits for the answer. Returns the error of `own_figures`, if it
  // is one. `purpose`: protocol::FiguresPurpose.
  Status ExchangeFigures(uint32_t purpose, const Result<pb::Figures>& own_figures);
  // Exchanges those figures that are due after this step.
  Status ExchangeDueFigures();

  Dependencies deps_;
  update::Schedule schedule_;
  Gradient gradient_;
  ReplicaState state_;
  Sums sums_;
  FiguresExchange figures_;
  EvaluationFiles evaluation_files_;
  const Context context_;
  const bool has_rounds_;
  std::unique_ptr<Algorithm> algorithm_;
  std::optional<RestartEvent> pending_restart_;  // set while this worker must restart
  // The checkpoint from which this worker resumes, until all state is restored from it.
  std::optional<tensors::TensorFile> loaded_checkpoint_;
  bool has_past_ = true;  // see Checkpoints::Begin
  // The round after which training continues, once the event ReadyToTrain has come.
  std::optional<uint64_t> ready_round_;
  uint64_t stop_after_ = 0;      // the job's last round, if ReadyToTrain said so; else 0
  uint64_t save_after_ = 0;      // ReadyToTrain::checkpoint_after
  uint64_t requested_step_ = 0;  // the step after which a checkpoint was last asked for; 0: none
  // By the job's length. Without rounds it is that of the workers' mean, and limits no worker.
  const uint64_t max_step_;
  uint64_t last_step_;
  uint64_t run_ = 0;  // the random number that identifies this run of the job
  uint64_t steps_done_ = 0;
  uint64_t checkpoint_step_ = 0;  // the number of steps when a checkpoint was last due
  uint64_t compared_round_ = 0;   // the newest applied round when replicas were last compared
  uint64_t evaluated_round_ = 0;  // and when the weights were last evaluated
  bool has_figures_answer_ = false;
  GlobalBatch global_batch_{deps_.setup.job};
  // Whether the last weights were evaluated, which counts even if they cannot be written.
  bool has_last_evaluation_ = false;
  std::vector<std::vector<float>> state_scalers_;  // from Sums::SaveScalers; a part of the State
  std::optional<Status> leave_status_;             // set if a signal asked this worker to leave
  bool leaves_at_once_ = false;                    // without waiting for servers (LeaveWanted)
  bool save_is_wanted_ = false;                    // since the event SaveWanted
  TracedSteps traced_steps_;
  Status end_checkpoint_status_;  // whether the checkpoint of the last step could be written
};

}  // namespace tern::client
