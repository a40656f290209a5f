// One schedule of the simulator: a job, the noise of its network and the faults of its processes,
// all drawn from a seed.
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
    kKillWorker,    // kill -9; started again after `down`, unless the job fails at a loss or, where
                    // it goes on without, `for_good`
    kKillServer,    // kill -9; started again after `down`, blank, at other data ports
    kFreezeWorker,  // SIGSTOP for `down`
    kReplaceWorker,   // SIGSTOP for `down`; meanwhile somebody starts another process of its rank
    kCutConnections,  // every connection of the worker breaks
    kCutServer,    // for `down` the link of a shard's machine is down, both ways. `hold`: what is
                   // on its way arrives after that; else it is lost
    kStop,         // a signal asks shard `target` for the end
    kStopWorker,   // ... worker `target`
    kStopAll,      // ... everybody, one after the other in an order of chance
    kKillAll,      // kill -9 of everybody; all are started again. `hold`: worker `target`'s newest
                   // checkpoint is torn; `for_good`: all of its are lost
    kKillWorkers,  // the same of all workers
  };
  // Strikes `after` the moment in which worker `witness` comes to `point` of `round` first.
  enum class Point { kStart, kPush, kApplied, kLeaving, kJoining };
  // kKillServer, where servers keep the state: what becomes of its disk.
  enum class Disk {
    kStays,         // all that the process had done is there
    kPower,         // its machine loses its power
    kInWrite,       // it is not killed at once, but in a change of its disk, `change` from then on
    kPowerInWrite,  // ... and its machine loses its power
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
  bool hold = false;  // what the killed worker had sent arrives after its successor was admitted

  bool IsStop() const {
    return kind == Kind::kStop || kind == Kind::kStopWorker || kind == Kind::kStopAll;
  }
};

// A job without rounds.
struct Clocks {
  uint64_t pushes = 0;  // of all ranks to a cell; 0: the job has rounds
  std::optional<uint64_t> bound;
  uint64_t max_staleness = 0;
  uint64_t pull_every = 1;  // exchanges; the others only push
  uint64_t save_every = 4;
};

struct Schedule {
  uint64_t seed = 0;
  uint32_t workers = 2;
  std::vector<uint32_t> data_lanes;  // by shard
  uint64_t rounds = 3;
  uint32_t window = 1;
  bool skips = false;    // data are uneven: some take no part in some rounds
  bool parts = false;    // step s makes round 2 s, of one bucket, and now and then 2 s + 1, of all
  bool central = false;  // rounds, and servers keep the state; all go back when one dies
  // Where servers keep the state, with rounds or without: train.algorithm of their lanes.
  std::string algorithm;
  bool changes = false;           // ... and their answers are changes of the weights
  uint64_t save_every = 1;        // rounds, where they do
  uint64_t checkpoint_every = 0;  // rounds; 0: the job has no checkpoints
  bool keeps_own = false;  // workers say so: one that comes back takes all back to a checkpoint
  Clocks clocks;
  algorithm::Elasticity elasticity{0, algorithm::OnLoss::kWait, 1};
  double loss = 0, duplicate = 0, delay = 0, reorder = 0;
  Time longest_delay{};
  std::vector<Fault> faults;
  // Where servers keep the state: for so many changes of its disk (0: none) a shard cannot write.
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
  // Of the lanes: rounds that a worker may be beyond what it has applied.
  uint32_t lane_window() const { return parts ? 2 : window; }
  // Whether a gradient depends on the state that it is taken at.
  bool has_point() const { return !central || window == 1; }
  // Whether what happens cannot show in the result.
  bool exact() const { return !elasticity.unsolicited(); }
  bool goes_back() const { return central && Has(Fault::Kind::kKillServer); }
  bool Has(Fault::Kind kind) const;
  static Schedule Make(uint64_t seed);  // with rounds
  static Schedule MakeClocks(uint64_t seed);
  static Schedule MakeCheckpoints(uint64_t seed);  // with rounds; everybody may be lost
};
std::string ToString(const Schedule& schedule);

}  // namespace tern::sim
