// The workers and shards of a job as shard 0 knows them: for each worker's rank the process that
// has the rank and what that process has reported; the other shards; and the numbers on which all
// daemons agree. The roster decides nothing; the parts of the Coordinator do (coordinator.h).
//
//   a rank: absent --Hello--> present --Bye--> done
//              ^                 |    \__ lost __/
//              |                 v
//              +-- Retire ----- lost --a new incarnation says hello--> present
//
//   absent   no process has the rank
//   present  its process is a member, or has said hello to a job that does not run yet
//   lost     its process was silent for too long, hung or left
//   done     its process has sent Bye, and stays until the job ends
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/rounds/lane.h"
#include "common/protocol/rounds/message.h"
#include "proto/wire.pb.h"

namespace tern::protocol {

struct Roster {
  struct Worker {
    enum class Presence { kAbsent, kPresent, kLost, kDone };
    Presence presence = Presence::kAbsent;
    // Why the newest hello for this rank did not fit the job; empty if it did, or none came.
    std::string why_refused;
    bool suspect = false;  // whether it has been silent for longer than suspect_after
    // Whether it has been silent for longer than dead_after, but is not lost, because shard 0 hears
    // no other worker, either.
    bool is_awaited = false;
    // Whether it is lost, but its process may be alive and come back with its state.
    bool may_return = false;
    bool has_left = false;  // whether it is lost because its process said that it leaves
    // Whether it is lost because its compute thread hangs. It may return only once that thread
    // advances, because until then a new process may take its rank.
    bool is_stuck = false;
    bool joining = false;  // whether it was told to get state, and has not reported yet that it has
    // Whether it is `joining`, and gets the state from the servers or from its checkpoint, as all
    // workers do when the job goes back.
    bool joins_from_begin = false;
    // Whether the others load a checkpoint of a job that did not have this rank, and it is joining.
    bool lacks_checkpoint = false;
    uint64_t incarnation = 0;
    uint64_t epoch = 0;  // the membership epoch in which this incarnation was admitted
    // The membership epoch in which its process was first admitted, as any incarnation.
    uint64_t first_epoch = 0;
    Peer peer = 0;
    pb::Hello hello;
    Time heard_at{};     // when its newest message came
    Time closed_at{};    // when its connection was found closed, if it has not been heard since
    Time advanced_at{};  // when its compute thread last advanced, or waited for others
    Time lost_at{};
    Time excused_at{};  // silence before this time does not count, because shard 0 heard no worker
    uint64_t progress = 0;    // a counter in its heartbeats, which its training threads increment
    uint64_t applied = 0;     // the newest round that it has applied
    uint64_t steps_done = 0;  // how many steps its weights include, from its last message, Bye
    uint64_t checkpoint_requests = 0;  // those in its heartbeats, as far as shard 0 has met them
    bool is_waiting = true;            // whether its compute thread waits for other daemons
    // Another incarnation that asks for this rank.
    struct Rival {
      uint64_t incarnation = 0;  // 0: there is none
      uint64_t num_pulses = 0;   // how many pulses shard 0 had sent when the rival first asked
      Time heard_at{};           // when it last asked
      // The first heartbeat that answered a later pulse, and so was sent after the rival had asked,
      // had this `progress`.
      std::optional<uint64_t> progress;
      // Whether this worker was alive, and its compute thread did not hang, after the rival had
      // asked.
      bool is_refuted = false;
    };
    Rival rival;
    pb::Counters counters;  // of its process; those of the rank's last process, if it is absent
    pb::Counters earlier;   // the sums (AddCounters) of the rank's processes before that one
    // The process that `counters` are of, as its newest hello and heartbeat described it.
    struct Process {
      uint64_t name = 0;  // the digest of its host and number
      uint64_t progress = 0;
      // Whether it has sent the hello, as whichever incarnation. In a container that is started
      // again, another process may have its pid, but begins without progress.
      bool HasSent(const pb::Hello& hello) const;
    };
    Process process;
    uint64_t logged_late_rounds = 0;  // the value of counters.late when it was last logged
    // The value of counters.failed_checkpoints when it was last logged.
    uint64_t logged_failed_checkpoints = 0;
    pb::Figures figures;  // the metrics in its Bye
    // The newest few incarnations of this rank that were removed or replaced.
    std::vector<uint64_t> retired_incarnations;

    bool live() const { return presence == Presence::kPresent || presence == Presence::kDone; }
    // Makes the rank absent. What its processes have counted stays.
    void Forget();
    // The same, and adds its incarnation to `retired_incarnations`.
    void Retire();
    // Call when the rank is given to the sender of the hello. If that is another process than the
    // last, adds what the last had counted to `earlier`.
    void CountFor(const pb::Hello& hello);
    // What all processes of the rank have counted, as far as they have reported it. What is no sum
    // is of the present process.
    pb::Counters CountersOfAll() const;
  };
  struct Shard {
    Peer peer = 0;
    uint64_t incarnation = 0;
    Time heard_at{};
    bool is_silent = false;  // whether it has been silent for longer than dead_after
    pb::Hello hello;
    // Another incarnation that asks for this shard's place; 0: none.
    uint64_t rival_incarnation = 0;
    Time rival_since{};
    uint64_t checkpoint_requests = 0;  // those in its pulses, as far as shard 0 has met them
    uint64_t failed_checkpoints = 0;   // how many checkpoints this process could not write
    uint64_t failed_before = 0;        // how many the shard's earlier processes could not write
    uint64_t logged_failed_checkpoints = 0;  // failed_checkpoints when it was last logged
  };

  // `workers`: the number of ranks.
  Roster(uint32_t workers, const Safeguards& safeguards)
      : workers(workers), safeguards(safeguards) {}

  // The worker of this rank, if it is not absent, has this incarnation, and was admitted on the
  // connection `from`; else null. Without fence_incarnations, always the worker of this rank.
  Worker* MemberOf(Peer from, uint32_t rank, uint64_t incarnation);
  // Whether the rank has this incarnation, but its hello was admitted on another connection than
  // `from`: the hello on this connection has not arrived yet, or an older hello arrived after it.
  bool IsOnAnotherConnection(Peer from, uint32_t rank, uint64_t incarnation) const;
  Worker* FindByPeer(Peer peer);          // the worker of this connection, or null
  bool HasPeer(Peer peer) const;          // whether a worker has this connection
  bool AllShardsAreHere() const;          // whether every other shard has said hello
  size_t NumLive() const;                 // how many workers are live
  std::string LiveText() const;           // how many workers are live, for example "3 of 4 workers"
  std::string Name(uint32_t rank) const;  // for example "worker 1 (node3, pid 4711)"
  // Whether a worker other than `except` holds the state of the running job or may return with it.
  bool MayHoldStateBeside(const Worker* except) const;
  // Whether a live worker gets the state from its checkpoint, or from the servers.
  bool SomeWorkerLoadsState() const;
  // Whether no live worker holds the state of the job, as the workers' hellos say. For use before
  // the job runs.
  bool NobodyHoldsState() const;
  // Whether a live worker has private state that no other daemon can send it (Hello.keeps_own).
  bool AnyLiveKeepsOwn() const;
  // Whether a live worker's hello names this run. Only members learn the run's number, so a process
  // that names it, too, has been a member of the run.
  bool KnowsRun(uint64_t number) const;
  // The newest epoch of any live worker. An epoch comes from the worker's hello, so an impossible
  // one (much newer than those of the other workers) does not count.
  uint64_t NewestEpoch() const;
  // Checks what must hold after every event: kInternal, with the invariant that is broken, or ok.
  Status Check() const;

  std::vector<Worker> workers;       // by rank
  std::map<uint32_t, Shard> shards;  // by the shard's number; shard 0 itself is not in it
  uint64_t epoch = 0;                // counts the changes of the membership
  uint64_t run = 0;                  // identifies this run of the job
  // The job's length in steps, from the first worker's hello; 0: no hello yet.
  uint64_t steps = 0;
  const Safeguards safeguards;
};

}  // namespace tern::protocol
