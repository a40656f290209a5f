// What one daemon offers to a job that looks for a checkpoint to go on from (recovery.h).
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "proto/wire.pb.h"

namespace tern::protocol {

// Identifies a checkpoint; greater keys are newer.
inline std::tuple<uint64_t, uint64_t, uint64_t> KeyOf(const pb::Checkpoint& checkpoint) {
  return {checkpoint.step(), checkpoint.round(), checkpoint.run()};
}

// Whether two daemons' checkpoints are parts of one state of the job.
inline bool BelongTogether(const pb::Checkpoint& a, const pb::Checkpoint& b) {
  return KeyOf(a) == KeyOf(b) && a.workers() == b.workers() && a.has_shards() == b.has_shards();
}

// What one daemon offers to a job whose state no daemon holds in memory.
struct Offer {
  std::string who;  // for example "worker 0 (node1)"
  const pb::Hello* hello = nullptr;
  bool is_required = true;  // whether this daemon must have the checkpoint that is chosen
  // Whether the job goes on without workers that it loses, and lets others join: it may have had
  // this rank, but no worker of it (attendance.h).
  bool may_join_later = false;

  // Whether this daemon must have the checkpoint if that is chosen, not counting `may_join_later`.
  // Not if the job that wrote it had other shards, or had another number of workers and not this
  // one, unless what the daemon has is of another job.
  bool Needs(const pb::Checkpoint& checkpoint) const;
  // The daemon's checkpoint that belongs together with `checkpoint`; nullptr if it has none.
  const pb::Checkpoint* Find(const pb::Checkpoint& checkpoint) const;
};

}  // namespace tern::protocol
