// A job whose state is lost (all its daemons are new, or the last worker that held it is gone)
// resumes from the newest checkpoint that every daemon has on its disk:
//
//   gathering --all workers, and all shards that keep state, have come--> choosing --> running
//
// A job also resumes if one worker was lost and comes back, when workers have private state that no
// other worker can provide (Hello.keeps_own) and the worker still has its checkpoints.
//
//   gathering  workers without state, and shards, offer their checkpoints in their hellos. A worker
//              that was admitted before first says hello as a new incarnation (GoBack, as in
//              roll_back.h)
//   choosing   the newest (run, step, round) that all offer. If nobody has any, a new job starts
//              from the beginning, as another run. If somebody has some, the job ends with a
//              sentence (WhyNotAnew): a disk may be missing, or the checkpoints may be of another
//              job. A job that had begun ends, too
//   running    Members, with a new `beginning` and `resume`: the shards' lanes go to that round,
//              load their state and forget all members. Welcome with `resume`: a worker loads its
//              own checkpoint and begins (session.h)
//
// Without rounds the shards hold the state of the job, so they alone offer checkpoints; that of
// step s is each shard's state when the workers had made s steps each, on average. A worker
// continues at the clock that the shards have counted, with its own private state
// (client/train/trainer.h).
//
// The run keeps its name. Nobody takes a step before all have been told. A daemon removes
// checkpoints newer than the chosen one: files of two histories never mix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "proto/wire.pb.h"

namespace tern::protocol {

inline std::tuple<uint64_t, uint64_t, uint64_t> KeyOf(const pb::Checkpoint& checkpoint) {
  return {checkpoint.step(), checkpoint.round(), checkpoint.run()};
}

// The newest checkpoint that is in every offer; nothing if there is none.
template <typename Offer>
std::optional<pb::Checkpoint> NewestOfAll(const std::vector<const Offer*>& offers) {
  std::optional<pb::Checkpoint> newest;
  if (offers.empty()) return newest;
  for (const pb::Checkpoint& one : *offers.front()) {
    const bool common = std::all_of(offers.begin(), offers.end(), [&](const Offer* offer) {
      return std::any_of(offer->begin(), offer->end(),
                         [&](const auto& other) { return KeyOf(other) == KeyOf(one); });
    });
    if (common && (!newest.has_value() || KeyOf(*newest) < KeyOf(one))) newest = one;
  }
  return newest;
}

// What a daemon has on its disk, as its hello says it.
struct Saved {
  std::vector<pb::Checkpoint> checkpoints;  // whole
  pb::Unfit unfit;                          // has a sentence where there are others
  uint64_t began = 0;                       // as Hello's

  void AddTo(pb::Hello* hello) const;
};
// What one daemon has of which each lane keeps its part.
Saved CommonOf(const std::vector<Saved>& lanes);

// A daemon that has come to a job whose state nobody holds.
struct Offer {
  std::string who;  // "worker 0 (node1)"
  const pb::Hello* hello = nullptr;
  bool counts = true;  // the job goes on from what these have in common
};

// Of offers without a checkpoint in common: why the job must not begin anew, or empty where it may.
// It may where nobody has anything, and where a run ended so early that some had written their
// first checkpoint and some had not: each that counts says that this run began on its disk, and has
// one at most. (Who has two of a run knows that all others have one: client/train/checkpoints.h.)
std::string WhyNotAnew(const std::vector<Offer>& offers);

}  // namespace tern::protocol
