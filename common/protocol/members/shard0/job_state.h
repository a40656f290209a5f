// The state of the job as shard 0 knows it. The parts of the Coordinator share it; each part
// changes only what its own header says.
//
//   phase      becomes    when
//   gathering  running    RunIfGathered: no required worker is missing
//              resuming   the hellos say that the job had begun, and no worker holds its state
//   resuming   calling    CallWorkers: live workers are told to say hello again
//              asking     no worker has to be called
//   calling    asking     all workers have said hello again
//   asking     running    the shards have answered, and the checkpoint is chosen
//   running    calling    GoingBack::GoBack is called
//              ending     EndIfAllDone: all workers have sent Bye
//   any        ending     Ending::Abort is called
//
//   gathering  the job starts, or shard 0 has restarted; the workers say hello
//   resuming   the job had begun, and no worker holds its state; no worker has been called yet
//   calling    every worker that was ever admitted has been told to say hello as a new incarnation
//   asking     the shards that keep state are asked for the checkpoints on their disks
//   running    all daemons know the members
//   ending     End or Abort is being sent (ending.h); nothing else happens any more
//
// `resuming` and `calling` also become `running` if a worker says hello that holds the state.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/members/control.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/members/shard0/roster.h"
#include "common/protocol/rounds/round_lane.h"

namespace tern::protocol {

enum class JobPhase { kGathering, kResuming, kCalling, kAsking, kRunning, kEnding };

struct JobState {
  JobState(ControlOptions options, std::vector<CellSpec> cells);
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  // Every change of the phase goes through here. REQUIRES a row of the first table.
  void Become(JobPhase next);
  bool running() const { return phase_ == JobPhase::kRunning; }
  bool ending() const { return phase_ == JobPhase::kEnding; }
  bool asking() const { return phase_ == JobPhase::kAsking; }
  // The job had begun, and waits for its workers to say hello again.
  bool going_back() const {
    return phase_ == JobPhase::kResuming || phase_ == JobPhase::kCalling ||
           phase_ == JobPhase::kAsking;
  }
  // The workers that had to say hello again were told to; they do so at once.
  bool called() const { return phase_ == JobPhase::kCalling || phase_ == JobPhase::kAsking; }
  // Whether the job can continue although no live worker holds its state.
  bool CanGoBack() const {
    return options.begins_from_shards || options.resumes || begin.from.has_value();
  }
  bool IsStopping() const { return stop_code != Code::kOk; }
  // kInternal names the invariant that is broken.
  Status Check() const;

  const ControlOptions options;
  RoundLane lane;  // the control lane: reduces scalers and figures
  Roster roster;
  Code stop_code = Code::kOk;  // kInterrupted or kTerminated once a signal asked for the end
  Time gathering_since{};
  Begin begin;             // the point from which the job started or last continued
  uint64_t beginning = 0;  // identifies `begin`; grows whenever the job goes back
  uint64_t reached = 0;    // the newest round that any worker had applied before the job went back

 private:
  friend class CoordinatorPeer;  // of tests: plants faults

  JobPhase phase_ = JobPhase::kGathering;
};

}  // namespace tern::protocol
