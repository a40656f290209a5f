// How a job whose state is lost continues from checkpoints on its daemons' disks. Shard 0 controls
// these phases; "loss" is one of the events below:
//
//                          all workers have         all shards that keep
//                          said hello again         state have offered
//   running --loss--> gathering ------------> asking ------------> choosing --> running
//                         ^                      |                                 |
//                         +--------loss----------+--------------loss---------------+
//
//   loss       One of these has happened:
//              - no live worker holds the state of the job any more;
//              - servers hold the parameters, there are rounds, and a shard says hello as a new
//                process;
//              - a worker that was lost comes back, and needs private state that only the
//                checkpoints on its disk have (Hello.keeps_own); shard 0 may have been lost with
//                it;
//              - shard 0 is a new process, and the workers that say hello had already started
//                the job
//   gathering  Shard 0 sends GoBack to every live worker that was ever admitted. The worker
//              discards its state and says hello as a new incarnation (a new random number, so that
//              its old messages are refused) that knows only the number of the run.
//              The hello of a worker without state offers the checkpoints on its disk
//   asking     Shard 0 sends GoBack to every shard that keeps state. The shard says hello again,
//              and offers the checkpoints that are on its disk by now
//   choosing   ChooseBeginPoint() picks the newest checkpoint that all daemons have. The first
//              start of a job also chooses, but without GoBack; it starts from initial weights if
//              no daemon has a checkpoint (WhyNotBeginAnew)
//   running    Shard 0 sends the message Members with a new `beginning` and the chosen checkpoint
//              as `resume`. The shards' lanes (the state machines behind their sockets) load the
//              checkpoint and forget all members. A worker whose Welcome has `resume` loads its own
//              checkpoint; with `begin` it pulls the parameters from the lanes (session.h)
//
// There are two kinds of checkpoints. All daemons write `checkpoints`, after the same steps.
// Between two of them, shards that hold the parameters also write `shard_checkpoints`. In a job
// with rounds a run under way may continue from `shard_checkpoints`, because workers can pull all
// that they need from the shards; but if workers have private state, and all daemons have a
// common checkpoint, it continues from that.
//
// In a job without rounds, a shard that restarts alone loads its newest checkpoint of either kind
// by itself, if that checkpoint has the job's present `beginning`. If it has none, and one was due
// by the answers that workers hold, the job ends (server/lane_checkpoints.h). A job that starts
// again continues from the shards' `checkpoints`; the checkpoint of step s is each shard's state
// when the workers had made s steps each, on average. A worker continues at the clock that the
// shards have counted, with its own private state (client/train/trainer.h).
//
// A job may go on from a checkpoint with another number of workers, or with other server shards,
// than it had when it wrote the checkpoint (Checkpoint.workers, Checkpoint.shards). Ranks that the
// job did not have then need no such checkpoint: they get the state as a worker does that returns
// without a disk. With other shards, the lanes need none: nobody holds what they remembered of
// earlier sums. With another number of workers, all workers discard their private state. With
// `shrink`, ranks without which the job went on, and those that joined it since, need no such
// checkpoint, either (attendance.h). A rank
// that comes back to a job that went on without it may have checkpoints of the same steps of the
// same run. They are other checkpoints, because they name another number of workers, or have other
// weights; the rank moves them away before its first step (Welcome.others_resume).
//
// The run keeps its number. No worker takes a step before all daemons know the checkpoint. A daemon
// removes checkpoints newer than the chosen one, so files of two histories never mix. Going back
// reads nothing but checkpoints, and every daemon keeps a common checkpoint until all daemons have
// a newer one (MinCheckpointsToKeep); therefore going back may be interrupted and started again at
// any point. Messages from before cannot do harm: all workers have new incarnations, so no lane
// accepts an old push, and new connections, so no worker receives an old answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/members/offer.h"
#include "proto/wire.pb.h"

namespace tern::protocol {

inline constexpr uint64_t kAnyRound = std::numeric_limits<uint64_t>::max();

// Returns the newest checkpoint, of a round up to `max_round`, that is in every list, with the same
// weights wherever their hash is known; nullopt if there is none. With `needs`, a list may lack the
// checkpoint if needs(index of the list, checkpoint) is false.
template <typename CheckpointList>
std::optional<pb::Checkpoint> NewestCommonCheckpoint(
    const std::vector<const CheckpointList*>& lists, uint64_t max_round = kAnyRound,
    const std::function<bool(size_t, const pb::Checkpoint&)>& needs = nullptr) {
  std::optional<pb::Checkpoint> newest;
  const auto is_common = [&](const pb::Checkpoint& candidate) {
    uint64_t hash = 0;
    size_t index = 0;
    return std::all_of(lists.begin(), lists.end(), [&](const CheckpointList* list) {
      if (const size_t i = index++; needs != nullptr && !needs(i, candidate)) return true;
      const auto other = std::find_if(list->begin(), list->end(), [&](const auto& checkpoint) {
        return BelongTogether(checkpoint, candidate);
      });
      if (other == list->end()) return false;
      if (hash == 0) hash = other->weights_hash();
      return other->weights_hash() == 0 || other->weights_hash() == hash;
    });
  };
  for (const CheckpointList* list : lists) {
    for (const pb::Checkpoint& candidate : *list) {
      if (candidate.round() > max_round) continue;
      if (newest.has_value() && KeyOf(candidate) <= KeyOf(*newest)) continue;
      if (is_common(candidate)) newest = candidate;
    }
    if (needs == nullptr) break;  // What is not in the first list is not common.
  }
  return newest;
}

// The number of checkpoints, one every `every` rounds, that each lane must keep so that all lanes
// always have one in common, even if one lane has lost its newest. Lanes are at most `window`
// rounds apart.
constexpr uint64_t MinCheckpointsToKeep(uint64_t every, uint64_t window) {
  return 2 + (window + every - 1) / every;
}

// The checkpoints that a daemon has on its disk, as its hello offers them.
struct SavedCheckpoints {
  std::vector<pb::Checkpoint> checkpoints;  // verified ones, of the kind that all daemons write
  // If the disk also has checkpoints that cannot be used: a sentence that says why they cannot.
  pb::Unfit unfit;
  // The number of the run (execution of the job) for which the disk was last prepared; 0: none.
  uint64_t prepared_run = 0;
  // From which only a run under way may continue: written by a shard between `checkpoints`, or, if
  // the daemon was started with checkpoints.resume: false, all that it has.
  std::vector<pb::Checkpoint> shard_checkpoints = {};
  uint64_t num_failed = 0;  // how many checkpoints this process could not write; not in the hello
  // As `unfit`, for a run under way, which also uses shard_checkpoints: set if the disk was
  // prepared for a run, and all its checkpoints are damaged.
  pb::Unfit unfit_in_run = {};

  void AddTo(pb::Hello* hello, bool is_run_under_way = false) const;
};
// Returns what a server offers if each of its data lanes saves its own parameters: the checkpoints
// that all lanes have. `num_failed` is the sum over the lanes. `lanes`: what each lane has saved.
SavedCheckpoints CommonCheckpoints(const std::vector<SavedCheckpoints>& lanes);

// What may be dropped when a job goes on with another size, for sentences.
inline constexpr const char* kWorkersOwnState =
    "what each worker had of its own (local weights and optimizer, codecs' memories)";
inline constexpr const char* kServersCodecState = "what the servers' codecs lost of earlier sums";

// What to do if a disk with checkpoints is missing, as the rest of a sentence.
std::string HowToRestore();

// Says how the job's size differs from that of the job that wrote the checkpoint, for example "6
// workers (4 before) and 2 server shards (1 before)"; empty if it does not differ.
std::string OtherSizeText(const pb::Checkpoint& checkpoint, uint32_t workers, uint32_t shards);

// The point from which a job starts or continues.
struct BeginPoint {
  // The checkpoint that shards with state load; nullopt: they start from their initial state.
  std::optional<pb::Checkpoint> checkpoint;
  // Whether workers load `checkpoint`, too; false: they pull the parameters.
  bool workers_load_checkpoint = false;
  uint64_t round() const { return checkpoint.has_value() ? checkpoint->round() : 0; }
};
// Chooses the newest checkpoint that is in all required offers, but for those that may lack it: if
// workers may join later, and at least `min_workers` took part in its run (attendance.h). `run`:
// the run that is under way, if the shards hold its parameters. If all shards have a newer
// checkpoint of that run, of either kind, the function returns that checkpoint instead. Checkpoints
// of rounds beyond `max_round` do not count.
BeginPoint ChooseBeginPoint(const std::vector<Offer>& offers, std::optional<uint64_t> run,
                            uint64_t max_round = kAnyRound, size_t min_workers = 0);

// Adds to the hello's `checkpoints` those of `run` among its `shard_checkpoints`, and sorts them.
// For use while the run is under way, because a daemon that was started with checkpoints.resume:
// false offers nothing else.
void OfferCheckpointsOfRun(uint64_t run, pb::Hello* hello);
// How many checkpoints of `run`, of either kind, the hello offers.
size_t NumCheckpointsOfRun(const pb::Hello& hello, uint64_t run);

// Returns which weights differ in the newest checkpoint that is in all required offers, if its step
// is greater than `after_step`; empty if none differ. Weights differ if a worker wrote the
// checkpoint after its memory was damaged, and before the replicas were compared.
std::string WhereWeightsDiffer(const std::vector<Offer>& offers, uint64_t after_step);

// Whether any daemon has a checkpoint, including those of other jobs and damaged ones.
bool AnyHasCheckpoint(const std::vector<Offer>& offers);
// Whether an earlier run of this job shows in the offers, which then need not have its newest
// checkpoints: a daemon has some, usable or not, or a worker was prepared for the run. Not if
// checkpoints are of another job.
bool AnyKnowsARun(const std::vector<Offer>& offers);
// REQUIRES offers without a common checkpoint. Returns why the job must not start from initial
// weights, or an empty string if it may. It may if no daemon has any checkpoint. It also may if the
// last run ended before all daemons had written their first checkpoint: then every daemon whose
// offer is required was prepared for that run and has at most one checkpoint of it, and not all
// have that one. (A daemon writes its second checkpoint only when all others have their first:
// client/train/checkpoints.h. Without rounds, where only shards' offers are required, the workers'
// checkpoints must not show that the shards had theirs to write.) `min_workers`: what
// ChooseBeginPoint got.
std::string WhyNotBeginAnew(const std::vector<Offer>& offers, size_t min_workers = 0);
// For a job whose servers hold the parameters, and that has begun the run `run`. REQUIRES that
// ChooseBeginPoint found no checkpoint. Returns why the job must not go back to its beginning, or
// an empty string if it may. It must not if one daemon has two checkpoints of the run, of either
// kind, and another, a shard, has lost its own: its disk was never prepared for the run, so it is
// missing, or checkpoints on it are damaged. (A worker has its second checkpoint only after every
// shard has written its first. Shards may be `window` rounds apart, so two checkpoints of a shard
// count only if they are, too.)
std::string WhyNotGoBackToBeginning(const std::vector<Offer>& offers, uint64_t run,
                                    uint64_t window = 1);

}  // namespace tern::protocol
