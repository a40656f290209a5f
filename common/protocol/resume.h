// A job whose state nobody holds (all its daemons are new, or the last worker that held it is gone)
// goes on from the newest checkpoint that every daemon has on its disk:
//
//   gathering --all workers, and all shards that keep something, have come--> choosing --> running
//
// So does a job of which one worker alone was lost and comes back, where workers have state of
// their own that no other can give it (Hello.keeps_own) and it still has its checkpoints.
//
//   gathering  hellos of workers without state, and of shards, offer what they have. Whoever was
//              admitted before says hello as a new incarnation first (GoBack, as in roll_back.h)
//   choosing   the newest (run, step, round) that all offer. None: a job of which nobody has any
//              begins at the start, as another run. Where somebody has some it ends with a sentence
//              (WhyNotAnew): a disk may be missing, or another job's. One that had begun ends too
//   running    Members, with another `beginning` and `resume`: the shards' lanes go to that round,
//              load what they keep, forget everybody. Welcome with `resume`: a worker loads its own
//              checkpoint, and begins (session.h)
//
// Without rounds the shards hold the state of the job: they alone offer, of step s what each had
// when the workers had made s steps each, on average. A worker goes on at the clock that they
// counted, and takes up what it has of its own (worker/train/trainer.h).
//
// The run goes on under its name. Nobody takes a step before all have been told, and what a daemon
// wrote after the checkpoint that was chosen it removes: those of two pasts never mix.
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

// The newest that is in every one of the offers; nothing where there is none.
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
// one at most. (Who has two of a run knows that all others have one: worker/train/checkpoints.h.)
std::string WhyNotAnew(const std::vector<Offer>& offers);

}  // namespace tern::protocol
