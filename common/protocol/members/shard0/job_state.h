// Where a job stands, as shard 0 knows it. The parts of the coordinator share it; each changes what
// its own header names.
//
//   phase      becomes    when
//   gathering  running    GatherIfComplete: all are here who are waited for
//              resuming   the hellos say that the job had begun, and nobody holds its state
//   resuming   calling    CallAnew
//              asking     no worker has to be called
//   calling    asking     all workers have come anew
//   asking     running    the shards have answered, and the checkpoint is chosen
//   running    calling    GoBack
//              ending     EndIfAllDone: all have said Bye
//   any        ending     Abort
//
//   gathering  the workers of a job's start, or of a restart of shard 0, say hello
//   resuming   the job had begun, and nobody holds its state; nobody has been told to come anew
//   calling    every worker that was ever admitted has been told to say hello as a new incarnation
//   asking     the shards that keep something are asked for the checkpoints on their disks
//   running    the members are known to all
//   ending     the farewell is being said (ending.h); nothing else happens any more
//
// `resuming` and `calling` become `running`, too, where a worker turns up that holds the state.
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

  // The only way to another phase. REQUIRES an arrow above.
  void Become(JobPhase next);
  bool running() const { return phase_ == JobPhase::kRunning; }
  bool ending() const { return phase_ == JobPhase::kEnding; }
  bool asking() const { return phase_ == JobPhase::kAsking; }
  // It had begun, and gathers its workers again.
  bool going_back() const {
    return phase_ == JobPhase::kResuming || phase_ == JobPhase::kCalling ||
           phase_ == JobPhase::kAsking;
  }
  // Some worker was told to say hello anew; it does so at once.
  bool called() const { return phase_ == JobPhase::kCalling || phase_ == JobPhase::kAsking; }
  // Whether the job can go on without any live worker that holds its state.
  bool CanGoBack() const {
    return options.begins_from_shards || options.resumes || begin.from.has_value();
  }
  bool IsStopping() const { return stop_code != Code::kOk; }
  // kInternal names the invariant that is broken.
  Status Check() const;

  const ControlOptions options;
  RoundLane lane;  // of scalers and figures
  Roster roster;
  Code stop_code = Code::kOk;  // 130 or 143 once a signal asked for the end
  Time gathering_since{};
  Begin begin;             // where the job began or went back to
  uint64_t beginning = 0;  // names `begin`; rises whenever the job goes back
  uint64_t reached = 0;    // the newest round that any worker had applied before the job went back

 private:
  friend class CoordinatorPeer;  // of tests: plants faults

  JobPhase phase_ = JobPhase::kGathering;
};

}  // namespace tern::protocol
