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
//   choosing   the newest (run, step, round) that all offer. None: a job that is new begins at the
//              start, as another run; one that had begun ends
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
#include <optional>
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

}  // namespace tern::protocol
