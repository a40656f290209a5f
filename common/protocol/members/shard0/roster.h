// Who belongs to a job, as shard 0 knows it: the ranks with their processes, the other shards, and
// what all have agreed on. Plain facts and questions about them; what follows from them is decided
// by the coordinator's parts (coordinator.h).
//
//   a rank: absent --Hello--> present --Bye--> done
//              ^                 |    \__ lost __/
//              |                 v
//              +-- Retire ----- lost --a new incarnation says hello--> present
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/rounds/message.h"
#include "proto/wire.pb.h"

namespace tern::protocol {

struct Roster {
  struct Worker {
    enum class Presence { kAbsent, kPresent, kLost, kDone };
    Presence presence = Presence::kAbsent;
    bool suspect = false;
    bool awaited = false;     // silent for longer than dead_after, but not lost: no other is heard
    bool may_return = false;  // lost, and its process may live and come back with the state
    bool joining = false;     // was told to fetch State and has not got it
    bool begins = false;      // ... from the servers, as all do
    uint64_t incarnation = 0;
    uint64_t epoch = 0;        // it was admitted in, as it or we said
    uint64_t first_epoch = 0;  // the first of its process, under whatever incarnation
    Peer peer = 0;
    pb::Hello hello;
    Time heard_at{}, moved_at{}, lost_at{};
    Time excused_at{};  // its silence until then does not count: shard 0 heard nobody
    uint64_t progress = 0;
    uint64_t applied = 0;
    uint64_t steps_done = 0;  // from its Bye
    bool waiting = true;
    uint64_t rival = 0;  // another incarnation that asks for this rank, since when
    Time rival_since{};
    pb::Counters counters;
    uint64_t late_told = 0;         // of counters.late, in the log
    pb::Figures figures;            // from its Bye
    std::vector<uint64_t> retired;  // incarnations that were given up or replaced; the newest few

    bool live() const { return presence == Presence::kPresent || presence == Presence::kDone; }
    // Makes it nobody, and remembers its incarnation.
    void Retire();
  };
  struct Shard {
    Peer peer = 0;
    uint64_t incarnation = 0;
    Time heard_at{};
    bool silent = false;
    pb::Hello hello;
    uint64_t rival = 0;  // another incarnation that asks for this place, since when
    Time rival_since{};
  };

  // `fence`: a worker's message counts only on the connection of its admitted hello.
  Roster(uint32_t workers, bool fence) : workers(workers), fence(fence) {}

  // Of a worker that is there or was lost: who says so on the connection that it has its place by.
  // Null for anybody else, whatever it claims to be.
  Worker* MemberOf(Peer from, uint32_t rank, uint64_t incarnation);
  // A member whose hello on a newer connection was overtaken by an older one, or is not here yet.
  bool IsOnAnotherConnection(Peer from, uint32_t rank, uint64_t incarnation) const;
  Worker* ByPeer(Peer peer);
  size_t Live() const;
  std::string LiveText() const;           // "3 of 4 workers"
  std::string Name(uint32_t rank) const;  // "worker 1 (node3, pid 4711)"
  // Whether a worker other than `except` holds the state of the running job or may return with it.
  bool MayHoldStateBeside(const Worker* except) const;
  // By what live workers said in their hellos, before the job runs.
  bool NobodyHoldsState() const;
  // kInternal names the invariant that is broken.
  Status Check() const;

  std::vector<Worker> workers;       // by rank
  std::map<uint32_t, Shard> shards;  // all but 0
  uint64_t epoch = 0;                // of the membership
  uint64_t run = 0;                  // of this run of the job
  uint64_t steps = 0;                // rounds of the job, as the first worker said; 0: nobody yet
  const bool fence;
};

}  // namespace tern::protocol
