// A schedule of the simulator: a job, the noise of its network, and the faults of its processes and
// disks, all drawn from one seed. Some jobs have rounds (synchronous exchanges between all
// workers); in the others each worker exchanges with the servers at its own pace. The servers
// either add up what workers send, or hold the weights themselves. Their data sockets are called
// data lanes.
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
    // Worker `target` is killed (SIGKILL) and started again after `down_time`. The worker stays
    // away if the job fails at the first loss of a worker, or if the job has begun and `for_good`
    // is set (only in jobs that can shrink).
    kKillWorker,
    // Shard `target` is killed (SIGKILL) and started again after `down_time`, with other data
    // ports.
    kKillServer,
    kFreezeWorker,  // worker `target` is suspended (SIGSTOP) for `down_time`
    // like kFreezeWorker, and a second process of the same rank is started meanwhile
    kReplaceWorker,
    kCutConnections,  // every connection of worker `target` breaks
    // The network link of shard `target` is down for `down_time`, in both directions. If `hold`,
    // messages arrive after that time; else they are lost.
    kCutServer,
    kStop,        // shard `target` receives a signal to stop
    kStopWorker,  // worker `target` receives a signal to stop
    kStopAll,     // all processes receive a signal to stop, one after the other, in a random order
    // All processes are killed (SIGKILL) and started again. If `hold`, the newest checkpoint of
    // worker `target` is damaged; if `for_good`, all checkpoints of that worker are lost.
    kKillAll,
    kKillWorkers,          // like kKillAll, but servers are not killed
    kKillAllButFollowers,  // like kKillAll, but shards other than 0 are not killed
    kFlipBit,              // a bit of the weights in the memory of worker `target` flips
    // The host of a daemon sleeps for `down_time`, and its clock stands still: that of shard
    // `target`, or of worker `target` - shards(). If `all_others`, the hosts of all others sleep.
    // If not `hold`, the sleepers' connections break.
    kSleep,
  };
  // A point in a worker's round: the worker's step starts, the worker has pushed, has applied the
  // result, leaves the finished job, or joins the job. The fault is injected `delay_after_point`
  // after worker `witness` first reaches `point` of `round`. For kLeaving, `round` is ignored; for
  // kJoining, `round` counts the processes of the rank; in jobs without rounds, `round` is the
  // number of the worker's push.
  enum class Point { kStart, kPush, kApplied, kLeaving, kJoining };
  // For kKillServer, in a job whose servers hold the weights: what happens to the shard's disk.
  enum class Disk {
    kStays,    // the disk keeps all that the process has written
    kPower,    // the machine loses power: disk changes that were not flushed may be lost
    kInWrite,  // the process is killed in the middle of its disk change number `change` from now
    kPowerInWrite,  // like kInWrite, and the machine loses power
    kTorn,          // the file that was written last is damaged
  };
  Kind kind = Kind::kKillWorker;
  uint32_t target = 0;
  uint32_t witness = 0;
  Point point = Point::kStart;
  uint64_t round = 1;
  Time delay_after_point{};
  Time down_time{};
  bool for_good = false;
  Disk disk = Disk::kStays;
  uint64_t change = 0;
  // For kKillWorker: messages that the killed process had sent arrive only after the process that
  // replaces it was admitted. The other kinds that use `hold` say so above.
  bool hold = false;
  bool all_others = false;  // for kSleep

  bool IsStop() const {
    return kind == Kind::kStop || kind == Kind::kStopWorker || kind == Kind::kStopAll;
  }
};

// The parameters of a job without rounds.
struct Clocks {
  uint64_t pushes = 0;  // pushes of all ranks to a chunk until the job ends; 0: the job has rounds
  std::optional<uint64_t> bound;  // only with algorithm ssp: its staleness bound
  uint64_t max_staleness = 0;     // servers drop pushes that are staler; 0: they drop none
  uint64_t pull_every = 1;        // every pull_every-th push of a worker also asks for the weights
  // Servers write a checkpoint of their own after every 1 + save_every % 3 steps, and one that all
  // have in common after every 2 + save_every % 4 steps and at the end.
  uint64_t save_every = 4;
};

struct Schedule {
  uint64_t seed = 0;
  uint32_t workers = 2;
  // How many workers each host has, by rank; they add up their pushes. 0: every worker pushes by
  // itself.
  uint32_t workers_a_host = 0;
  std::vector<uint32_t> data_lanes;  // number of data lanes of each shard
  uint64_t rounds = 3;
  uint32_t window = 1;  // how many rounds a worker may have open at the same time
  bool has_skips =
      false;  // the training data are unevenly distributed: some workers skip some rounds
  // If true, a step exchanges only a part of the model: step s is round 2 s, which exchanges one
  // bucket. After some steps, round 2 s + 1 follows, which exchanges all buckets.
  bool exchanges_parts = false;
  // The job has rounds, and its servers hold the weights. When a server dies, all processes go back
  // to a checkpoint of the servers, or to the beginning.
  bool is_central = false;
  // The training algorithm that the servers run, if they hold the weights; else empty.
  std::string algorithm;
  bool sends_changes = false;  // the servers answer with changes of the weights, not with weights
  uint64_t save_every = 1;     // if is_central: rounds between checkpoints of the servers
  uint64_t checkpoint_every = 0;  // rounds between checkpoints of the workers; 0: the job has none
  // Workers have state of their own that no other process has (Hello.keeps_own). So if a worker
  // comes back, all processes go back to a checkpoint.
  bool keeps_own_state = false;
  Clocks clocks;
  algorithm::Elasticity elasticity{0, algorithm::OnLoss::kWait, 1};
  // Probabilities that the network loses, duplicates, delays, reorders or damages a message.
  double loss = 0, duplicate = 0, delay = 0, reorder = 0, damage = 0;
  // After the first damaged message, a connection damages all messages in the same direction.
  bool damage_stays = false;
  // The processes ignore damaged messages: a planted fault.
  bool ignores_damage = false;
  bool has_stranger = false;  // a process that is no member sends messages in the members' names
  Time longest_delay{};
  // Between sites far apart: how long every message travels, and how many bytes a second each
  // connection carries in each direction; 0: any number.
  Time trip{};
  uint64_t bytes_per_s = 0;
  std::vector<Fault> faults;
  // In a job whose servers hold the weights: the disk of `shard` refuses changes number `from` to
  // from + changes - 1 because it is full. With changes = 0 it refuses none.
  struct FullDisk {
    uint32_t shard = 0;
    uint64_t from = 0, changes = 0;
  };
  FullDisk full_disk;
  protocol::Timings timings;

  uint32_t shards() const { return static_cast<uint32_t>(data_lanes.size()); }
  bool shrinks() const { return elasticity.shrinks_on_loss(); }
  bool has_rounds() const { return clocks.pushes == 0; }
  bool servers_hold_state() const { return !algorithm.empty(); }
  // The servers' window: how many round numbers beyond its applied round a worker may contribute
  // to.
  uint32_t lane_window() const { return exchanges_parts ? 2 : window; }
  // Whether a gradient depends on the state at which it is computed.
  bool gradient_uses_state() const { return !is_central || window == 1; }
  // Whether the result is the same for all faults and timings.
  bool is_deterministic() const { return !elasticity.has_unsolicited_outcomes(); }
  // Whether all processes may go back to a checkpoint of the servers.
  bool goes_back() const { return is_central && HasFaultOfKind(Fault::Kind::kKillServer); }
  bool HasFaultOfKind(Fault::Kind kind) const;
  // Makes a job with rounds.
  static Schedule Make(uint64_t seed);
  // Makes a job without rounds.
  static Schedule MakeWithoutRounds(uint64_t seed);
  // Makes a job with rounds and workers' checkpoints. All its processes may be killed at once.
  static Schedule MakeWithCheckpoints(uint64_t seed);
  // Makes a job with rounds whose workers hold the weights, with or without checkpoints. Shard 0
  // and all workers are killed at once, and other shards are not.
  static Schedule MakeWithSurvivors(uint64_t seed);
  // Makes a job like MakeWithCheckpoints that goes on without the workers that it loses.
  static Schedule MakeElasticWithCheckpoints(uint64_t seed);
  // Makes a job like MakeWithCheckpoints. A bit of one worker's weights flips; there are faults of
  // the network and of shards other than 0, and no others.
  static Schedule MakeWithFlippedBit(uint64_t seed);
  // Makes a job, with or without rounds, whose network damages messages: some of them, or, from
  // some time on, all of a connection. In the second case the job fails at the first loss of a
  // worker, and none is lost if the processes open new connections.
  static Schedule MakeWithDamage(uint64_t seed);
  // Makes a job, with or without rounds, in which some hosts sleep for an hour. The job's timeouts
  // are longer or shorter than that.
  static Schedule MakeWithSleep(uint64_t seed);
  // Makes a job like Make or MakeWithCheckpoints whose workers add up their pushes on their hosts.
  static Schedule MakeWithHosts(uint64_t seed);
  // Makes a job, with or without rounds, on whose servers a stranger calls. It has no faults: the
  // stranger may take the rank of a worker that is lost.
  static Schedule MakeWithStranger(uint64_t seed);
};
// Describes a schedule in one line.
std::string ToString(const Schedule& schedule);

}  // namespace tern::sim
