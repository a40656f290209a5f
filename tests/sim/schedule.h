// One schedule of the simulator: a job, the noise of its network, and the faults of its processes
// and disks, all drawn from a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/algorithm/elasticity.h"
#include "common/protocol/members/session/session.h"
#include "tests/sim/rng.h"

namespace tern::sim {

using protocol::Time;

struct Fault {
  enum class Kind {
    kKillWorker,     // kill -9; started again after `down`, unless the job fails at the first loss,
                     // or, under `shrink`, `for_good` is set
    kKillServer,     // kill -9; started again after `down`, without memory, at other data ports
    kFreezeWorker,   // SIGSTOP for `down`
    kReplaceWorker,  // SIGSTOP for `down`; meanwhile another process of its rank is started
    kCutConnections,  // every connection of the worker breaks
    // The network link of a shard's machine is down for `down`, both ways. `hold`: messages arrive
    // after that; else they are lost
    kCutServer,
    kStop,        // shard `target` receives a signal to stop
    kStopWorker,  // worker `target` receives a signal to stop
    kStopAll,     // all daemons do, one after the other, in a random order
    // kill -9 of all daemons; all are started again. `hold`: worker `target`'s newest checkpoint is
    // torn; `for_good`: all of its checkpoints are lost
    kKillAll,
    kKillWorkers,  // like kKillAll, but only the workers
  };
  // The fault strikes `after` the moment at which worker `witness` first reaches `point` of
  // `round`.
  enum class Point { kStart, kPush, kApplied, kLeaving, kJoining };
  // With kKillServer, if servers hold the state: what happens to the shard's disk.
  enum class Disk {
    kStays,         // everything that the process had written is there
    kPower,         // the machine loses power: changes that were not flushed may be lost
    kInWrite,       // the process is killed later, in the middle of change number `change` from now
    kPowerInWrite,  // like kInWrite, and the machine loses power
    kTorn,          // the file that was written last is torn
  };
  Kind kind = Kind::kKillWorker;
  uint32_t target = 0;
  uint32_t witness = 0;
  Point point = Point::kStart;
  uint64_t round = 1;
  Time after{};
  Time down{};
  bool for_good = false;
  Disk disk = Disk::kStays;
  uint64_t change = 0;
  // kKillWorker: what the killed process had sent arrives after its successor was admitted. The
  // other kinds that use it say how.
  bool hold = false;

  bool IsStop() const {
    return kind == Kind::kStop || kind == Kind::kStopWorker || kind == Kind::kStopAll;
  }
};

// The parameters of a job without rounds.
struct Clocks {
  uint64_t pushes = 0;            // of all ranks to a cell; 0: the job has rounds
  std::optional<uint64_t> bound;  // of ssp
  uint64_t max_staleness = 0;
  uint64_t pull_every = 1;  // every so many exchanges ask for weights; the others only push
  uint64_t save_every = 4;
};

struct Schedule {
  uint64_t seed = 0;
  uint32_t workers = 2;
  std::vector<uint32_t> data_lanes;  // by shard
  uint64_t rounds = 3;
  uint32_t window = 1;
  bool skips = false;  // data are uneven: some workers skip some rounds
  // Rounds exchange parts: step s is round 2 s, of one bucket, and sometimes round 2 s + 1, of all
  // buckets
  bool parts = false;
  // With rounds, and servers hold the state; all daemons go back when a server dies
  bool central = false;
  // If servers hold the state, with or without rounds: train.algorithm of their lanes. Else empty.
  std::string algorithm;
  bool changes = false;           // their answers are changes of the weights
  uint64_t save_every = 1;        // if servers hold the state: rounds between their checkpoints
  uint64_t checkpoint_every = 0;  // rounds between checkpoints of all daemons; 0: the job has none
  bool keeps_own = false;  // Hello.keeps_own: if a worker comes back, all go back to a checkpoint
  Clocks clocks;
  algorithm::Elasticity elasticity{0, algorithm::OnLoss::kWait, 1};
  double loss = 0, duplicate = 0, delay = 0, reorder = 0;
  Time longest_delay{};
  std::vector<Fault> faults;
  // If servers hold the state: a shard whose disk is full from change number `from` on, for
  // `changes` changes (0: none).
  struct FullDisk {
    uint32_t shard = 0;
    uint64_t from = 0, changes = 0;
  };
  FullDisk full_disk;
  protocol::Timings timings;

  uint32_t shards() const { return static_cast<uint32_t>(data_lanes.size()); }
  bool shrinks() const { return elasticity.shrink(); }
  bool has_rounds() const { return clocks.pushes == 0; }
  bool servers_keep() const { return !algorithm.empty(); }
  // How many rounds beyond its applied round a worker may contribute to, for the lanes.
  uint32_t lane_window() const { return parts ? 2 : window; }
  // Whether a gradient depends on the state at which it is computed.
  bool has_point() const { return !central || window == 1; }
  // Whether the result does not depend on faults and timing.
  bool exact() const { return !elasticity.unsolicited(); }
  bool goes_back() const { return central && Has(Fault::Kind::kKillServer); }
  bool Has(Fault::Kind kind) const;
  static Schedule Make(uint64_t seed);  // with rounds
  static Schedule MakeClocks(uint64_t seed);
  static Schedule MakeCheckpoints(uint64_t seed);  // with rounds; all daemons may be lost at once
};
std::string ToString(const Schedule& schedule);

}  // namespace tern::sim
