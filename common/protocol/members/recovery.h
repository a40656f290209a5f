// How a job whose state is lost goes on from checkpoints on its daemons' disks. Shard 0 drives it:
//
//                       all workers              all shards that keep
//                       have come anew           something have offered
//   running --1--> gathering ------------> asking ------------> choosing --> running
//                      ^                      |                                 |
//                      +----------1-----------+----------------1----------------+
//
//   1          no live worker holds the state of the job any more; or, where servers hold the
//              parameters and there are rounds, a shard says hello as a new process; or one worker
//              was lost and comes back, and what it had of its own (Hello.keeps_own) is on its disk
//              alone; or shard 0 itself is new, and the workers that it gathers had begun
//   gathering  GoBack to every worker that was ever admitted: its state is void, and it says hello
//              as a new incarnation that knows nothing but the run. Workers without state offer
//              their checkpoints in their hellos
//   asking     GoBack to every shard that keeps something: it says hello again, with the
//              checkpoints that are on its disk by now
//   choosing   Choose(). A job's first start is the same without the questions; it may begin anew
//              if nobody has any checkpoint (WhyNotAnew)
//   running    Members with a new `beginning` and, as `resume`, what was chosen: the shards' lanes
//              load it and forget all members. Welcome with `resume`: a worker loads its own
//              checkpoint; with `begin`: it pulls the parameters from the lanes (session.h)
//
// There are two kinds. All daemons write `checkpoints` of the same steps. Shards that hold the
// parameters write `shard_checkpoints` between those; a run that goes on may use them, where there
// are rounds, because workers can pull from shards all that they need. Without rounds a shard that
// comes back alone loads its newest of either kind, by itself, unless that is of another
// `beginning`; and a job that starts again goes on from the shards' `checkpoints`: that of step s
// is each shard's state when the workers had made s steps each, on average. A worker continues at
// the clock that the shards have counted, with its own private state (client/train/trainer.h).
//
// The run keeps its name. Nobody takes a step before all have been told. A daemon removes
// checkpoints newer than the chosen one: files of two histories never mix. Going back needs only
// checkpoints, and one that all have is kept until all have a newer one (LeastToKeep), so it may
// start again at any point. Old messages are fenced by incarnations: all workers have new ones, so
// no lane that has gone back takes an old push; and their connections are new, so no worker hears
// an old answer.
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

// How many checkpoints, written every `every` rounds, a lane has to keep so that all lanes have one
// in common, though one of them may have lost its newest. All lanes are within `window` rounds of
// each other.
constexpr uint64_t LeastToKeep(uint64_t every, uint64_t window) {
  return 2 + (window + every - 1) / every;
}

// What a daemon has on its disk, as its hello says it.
struct Saved {
  std::vector<pb::Checkpoint> checkpoints;  // whole
  pb::Unfit unfit;                          // has a sentence where there are others
  uint64_t began = 0;                       // as Hello's
  std::vector<pb::Checkpoint> shard_checkpoints = {};

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

// Where a job begins.
struct Begin {
  std::optional<pb::Checkpoint> from;  // shards that keep something load it; nothing: all is new
  bool workers_load = false;  // ... as workers do; false: they pull the parameters from the servers
  uint64_t round() const { return from.has_value() ? from->round() : 0; }
};
// The newest checkpoint that all have whose offers count. With `run`, which is under way and whose
// parameters the shards hold: the newest of that run that all shards have, of either kind, if that
// is newer.
Begin Choose(const std::vector<Offer>& offers, std::optional<uint64_t> run);

// Whether anybody has a checkpoint, be it of another job or damaged.
bool HasAny(const std::vector<Offer>& offers);
// Of offers without a checkpoint in common: why the job must not begin anew, or empty where it may.
// It may where nobody has anything, and where a run ended so early that some had written their
// first checkpoint and some had not: each that counts says that this run began on its disk, and has
// one at most. (Who has two of a run knows that all others have one: client/train/checkpoints.h.)
std::string WhyNotAnew(const std::vector<Offer>& offers);

}  // namespace tern::protocol
