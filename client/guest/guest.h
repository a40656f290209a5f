// A worker in a foreign process, behind the C interface (client/tern.h): joins a job whose workers
// are programs of the user's, and takes part in it on threads of its own, until the job ends. With
// train.compute: client the program has the weights; with train.compute: module it computes
// gradients, and the guest trains as a tern_worker does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/exchange/progress.h"
#include "client/guest/client_state.h"
#include "client/guest/guest_compute.h"
#include "client/guest/handoff.h"
#include "client/guest/tasks.h"
#include "client/train/checkpoints.h"
#include "client/train/compute.h"
#include "client/train/replica.h"
#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/mutex.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/base/threads.h"
#include "common/net/traffic.h"
#include "models/graph/weights.h"
#include "proto/net.pb.h"
#include "setup/setup.h"

namespace tern::client {

class Guest {
 public:
  struct Options {
    std::string job_path;
    std::vector<std::string> overrides;  // KEY=VALUE
    uint32_t rank = 0;
    pb::TensorTable tensors;
    bool has_first_state = false;  // whether the others begin with the state of this program
    std::string saved_state;       // of a client: what Save has returned in an earlier start
    uint64_t saved_digest = 0;     // of the weights beside saved_state; 0: not known
    bool takes_tasks = false;  // of a client: whether the program calls NextTask before each step
    // Of a module's job.
    bool is_module = false;
    bool evaluates = false;         // whether the program does Tasks' kEvaluate
    models::Weights first_weights;  // in the table's order; model.weights replaces them
  };
  // Reads the job and its keys, and begins to join it. kBadJob if the job is not of the program's
  // kind.
  static Result<std::unique_ptr<Guest>> Open(const Options& options);
  // Ends the worker, if it has not ended, and waits for its threads.
  ~Guest();

  // Waits up to `timeout` for the next event.
  GuestEvent Poll(Time timeout);
  Handoff& handoff() { return handoff_; }
  // In a client's job, as ClientState::Save. kUsage in the middle of a step.
  Result<std::optional<Bytes>> Save(Time patience);
  // As Tasks::Next. kUsage if what was taken last was not done, or the program takes no tasks.
  Result<GuestTask> NextTask(Time patience);
  // As Handoff::Push. kUsage if a client that takes tasks has not taken the step.
  Result<bool> Push(uint32_t tensor, const float* gradient, float* mean, Time patience);
  Tasks& tasks() { return tasks_; }
  // The replica's memory, as long as the guest lives. In a module's job the program reads
  // weights there, writes gradients, and reads and writes statistics, while it has a task.
  Replica& replica() { return *replica_; }
  const setup::Setup& setup() const { return *setup_; }
  // Ends the guest's part in the job; the first call counts.
  void End(const Status& status);
  uint64_t steps() const { return handoff_.steps_done(); }
  std::string StatsJson() const;

 private:
  Guest(std::unique_ptr<setup::Setup> setup, const Options& options);
  Status MakeReplica();
  // The compute thread: trains to the end of the job.
  void Run();
  Status Train();
  Status TrainClient();
  // Trains with `compute`. `saved`: the checkpoints that can be used.
  Status TrainWith(Compute& compute, Checkpoints& checkpoints, protocol::SavedCheckpoints saved);
  // Keeps the counters for StatsJson, a few times a second. On the net thread.
  void OnCounters(const pb::Counters& counters);

  const std::unique_ptr<setup::Setup> setup_;
  const uint32_t rank_;
  const bool has_first_state_, evaluates_, takes_tasks_;
  Time counted_at_{};  // used on the net thread
  StopSignals signals_{StopSignals::TakesNone()};
  Registry registry_;
  net::Traffic traffic_{registry_};
  Progress progress_;
  Events events_;
  GuestEvents guest_events_;
  Handoff handoff_;
  Tasks tasks_;
  // It lives as long as the guest, because the program may be writing a gradient when the job ends.
  std::unique_ptr<Replica> replica_;
  GuestRound round_;
  std::unique_ptr<ClientState> client_state_;  // null if the program takes tasks
  mutable Mutex mutex_;
  pb::Counters counters_ TERN_GUARDED_BY(mutex_);  // the newest of the net thread, or almost
  Thread thread_;  // The last member, because the thread uses all members above.
};

}  // namespace tern::client
