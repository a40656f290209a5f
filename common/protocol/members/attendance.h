// Which checkpoints a worker of a job with `shrink` may lack when the job goes on from one. The job
// has gone on without workers that it lost, and others have joined it since; so the disks of its
// ranks need not have a checkpoint in common, although none is missing.
//
//   worker 0   has steps 200 and 250, the newest two, as always
//   worker 1   has steps 50 and 100: it was lost before 200
//   worker 2   has none: it is new, or its disk is
//   worker 3   has steps 150 and 200: it was a little slower when all died
//
// All go on from 200. A member pushes for the round of a checkpoint only after it has written the
// one before (client/train/checkpoints.h); so a worker that lacks both, and has no newer one, was
// no member, and need not have it. It gets the state from the others, and moves its own checkpoints
// away (Welcome.others_resume).
//
// Members are one checkpoint apart. So if there is no such checkpoint, or if any worker has two
// newer ones, all go on from the newest that any worker has: it is the whole state of the job, but
// for what others had of their own.
//
// No worker may lack a checkpoint
// - if its own are of another run, or have other weights than another worker's of the same step: it
//   is unknown which of them are the job's;
// - if fewer than workers.min of those that are here took part in the run that wrote the
//   checkpoint: the disks of the others are probably not mounted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/protocol/members/offer.h"

namespace tern::protocol {

// `offers` must outlive the object.
class Attendance {
 public:
  enum class Rule {
    kMembers,    // a worker needs the checkpoint unless it was no member when it was written
    kAnyHolder,  // a worker needs no checkpoint that another worker has
  };
  Attendance(const std::vector<Offer>& offers, size_t min_workers, Rule rule);

  // Whether the daemon that made `offer`, one of the offers, must have the checkpoint if that is
  // chosen. In jobs without `shrink`: Offer::Needs().
  bool Needs(const Offer& offer, const pb::Checkpoint& checkpoint) const;
  // How many newer checkpoints of its run, of rounds up to `max_round`, any workers have. 0 in jobs
  // without `shrink`.
  size_t NumNewer(const pb::Checkpoint& checkpoint, uint64_t max_round) const;

 private:
  bool AnyWorkerHas(const pb::Checkpoint& checkpoint) const;
  // The newest checkpoint of the same run that any worker has and that is older; null if none is.
  const pb::Checkpoint* Before(const pb::Checkpoint& checkpoint) const;

  size_t min_workers_;
  Rule rule_;
  std::vector<pb::Checkpoint> known_;         // what any worker has, each once
  std::set<const pb::Hello*> differing_;      // of workers whose weights differ from another's
  std::map<uint64_t, size_t> num_took_part_;  // by run: how many workers took part in it
};

}  // namespace tern::protocol
