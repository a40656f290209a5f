// Where a job stands, as shard 0 knows it. The parts of the coordinator share it; each changes what
// its own header names.
//
//   gathering --GatherIfComplete--> running --EndIfAllDone, Abort--> ending
//   running   --GoBack--> calling
//   gathering --the hellos say that the job had begun--> resuming --CallAnew--> calling
//   resuming, calling --all workers are here--> asking
//   resuming, calling, asking --GatherIfComplete--> running
//   any but ending --Abort--> ending
//
//   gathering  the workers of a job's start, or of a restart of shard 0, say hello
//   resuming   the job had begun, and nobody holds its state; nobody has been told to come anew
//   calling    every worker that was ever admitted has been told to say hello as a new incarnation
//   asking     the shards that keep something are asked for the checkpoints on their disks
//   running    the members are known to all
//   ending     the farewell is being said (ending.h); nothing else happens any more
//
// A job whose state some workers hold needs no checkpoint: it runs again without asking the shards.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/members/control.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/members/shard0/roster.h"
#include "common/protocol/rounds/round_lane.h"

namespace tern::protocol {

struct JobState {
  enum class Phase { kGathering, kResuming, kCalling, kAsking, kRunning, kEnding };

  JobState(ControlOptions options, std::vector<CellSpec> cells);
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  // The only way to another phase. REQUIRES an arrow above.
  void Become(Phase next);
  bool running() const { return phase_ == Phase::kRunning; }
  bool ending() const { return phase_ == Phase::kEnding; }
  bool asking() const { return phase_ == Phase::kAsking; }
  // It had begun, and gathers its workers again.
  bool going_back() const {
    return phase_ == Phase::kResuming || phase_ == Phase::kCalling || phase_ == Phase::kAsking;
  }
  // Some worker was told to say hello anew; it does so at once.
  bool called() const { return phase_ == Phase::kCalling || phase_ == Phase::kAsking; }
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

  Phase phase_ = Phase::kGathering;
};

}  // namespace tern::protocol
