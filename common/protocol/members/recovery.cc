#include "common/protocol/members/recovery.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"
#include "common/protocol/members/attendance.h"

namespace tern::protocol {

namespace {

// The most groups of daemons that an error message names, and the most daemons per group.
constexpr size_t kMaxNamed = 6;
// How much of another daemon's sentence an error message quotes.
constexpr size_t kMaxSentenceBytes = 600;

constexpr const char* kHowToBeginAnew =
    "begin anew with --set checkpoints.resume=false, which keeps what is there under another name";

std::string AndMore(size_t num_more) {
  return num_more == 0 ? "" : Cat(" and ", num_more, " more");
}

std::string SentenceOf(const pb::Hello& hello) {
  return Printable(hello.unfit().sentence(), kMaxSentenceBytes);
}

bool HasAnyCheckpoint(const Offer& offer) {
  return offer.hello->checkpoints_size() != 0 || offer.hello->has_unfit();
}

std::string WhyJobDoesNotFit(const std::vector<Offer>& offers) {
  const Offer* first_offer = nullptr;
  size_t num_more = 0;
  for (const Offer& offer : offers) {
    if (!offer.hello->unfit().other_job()) continue;
    num_more += first_offer != nullptr;
    if (first_offer == nullptr) first_offer = &offer;
  }
  if (first_offer == nullptr) return "";
  return Cat("this job does not fit the checkpoints of ", first_offer->who,
             num_more == 0 ? "" : Cat(AndMore(num_more), num_more == 1 ? " daemon" : " daemons"),
             ": ", SentenceOf(*first_offer->hello),
             "; start the job that wrote them, give another output_dir, or ", kHowToBeginAnew);
}

// For a job without rounds, whose shards alone must have the checkpoint (Offer.is_required):
// whether the workers' checkpoints show that the job was beyond the first that the shards write,
// when the workers had made that many steps on average. One worker's two are not enough: it may be
// fast.
bool WorkersWereBeyondFirst(const std::vector<Offer>& offers) {
  uint64_t sum_newest_steps = 0, num_workers = 0, first_step = 0;
  for (const Offer& offer : offers) {
    if (offer.is_required || offer.hello->role() != pb::Hello::worker) continue;
    ++num_workers;
    const auto& checkpoints = offer.hello->checkpoints();
    if (checkpoints.empty()) continue;
    sum_newest_steps += checkpoints[checkpoints.size() - 1].step();
    // The oldest of several is regular, so it is no earlier than the shards' first.
    const uint64_t oldest_step = checkpoints[0].step();
    if (checkpoints.size() > 1 && (first_step == 0 || oldest_step < first_step))
      first_step = oldest_step;
  }
  return first_step != 0 && sum_newest_steps >= num_workers * first_step;
}

// Whether no daemon has unusable checkpoints, and every daemon whose offer is required had started
// the same run and has at most one checkpoint, of that run. Then the run ended before all daemons
// had written their first checkpoint.
bool EndedBeforeFirstCheckpoint(const std::vector<Offer>& offers) {
  std::set<uint64_t> runs;
  for (const Offer& offer : offers) {
    if (offer.hello->has_unfit()) return false;
    if (!offer.is_required) continue;
    runs.insert(offer.hello->began());
    if (offer.hello->checkpoints_size() > 1) return false;
    for (const pb::Checkpoint& checkpoint : offer.hello->checkpoints())
      runs.insert(checkpoint.run());
  }
  return runs.size() == 1 && *runs.begin() != 0 && WhereWeightsDiffer(offers, 0).empty() &&
         !WorkersWereBeyondFirst(offers);
}

std::string DescribeSteps(const pb::Hello& hello, bool name_runs) {
  const auto& checkpoints = hello.checkpoints();
  std::string text = "none";
  if (hello.has_unfit()) text = "none that is whole: " + SentenceOf(hello);
  if (checkpoints.empty()) return text;
  const uint64_t oldest_step = checkpoints[0].step(),
                 newest_step = checkpoints[checkpoints.size() - 1].step();
  text = checkpoints.size() == 1
             ? Cat("step ", oldest_step)
             : Cat("steps ", oldest_step, checkpoints.size() == 2 ? " and " : " to ", newest_step);
  return name_runs ? Cat(text, " of run ", Hex(checkpoints[checkpoints.size() - 1].run())) : text;
}

// Returns for example "worker 0 (node1), worker 1 (node2) have steps 10 and 20, worker 2 (node3)
// has none".
std::string WhoHasWhat(const std::vector<Offer>& offers) {
  std::set<uint64_t> runs;
  for (const Offer& offer : offers) {
    for (const pb::Checkpoint& checkpoint : offer.hello->checkpoints())
      runs.insert(checkpoint.run());
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // (what, who)
  std::map<std::string, size_t> group_by_what;
  for (const Offer& offer : offers) {
    if (!offer.is_required && !HasAnyCheckpoint(offer)) continue;
    const std::string what = DescribeSteps(*offer.hello, runs.size() > 1);
    const auto [group, is_new] = group_by_what.emplace(what, groups.size());
    if (is_new) groups.push_back({what, {}});
    groups[group->second].second.push_back(offer.who);
  }
  std::vector<std::string> phrases;
  for (auto& [what, who] : groups) {
    const size_t num_daemons = who.size(), num_named = std::min(num_daemons, kMaxNamed);
    who.resize(num_named);
    phrases.push_back(Cat(Join(who), AndMore(num_daemons - num_named),
                          num_daemons == 1 ? " has " : " have ", what));
  }
  const size_t num_groups = phrases.size(), num_named = std::min(num_groups, kMaxNamed);
  phrases.resize(num_named);
  return Join(phrases, "; ") +
         (num_groups == num_named ? "" : Cat("; the others differ too (", num_groups, " kinds)"));
}

// The step of the newest checkpoint of `run`, of either kind, if the daemon has two of the run that
// are at least `window` rounds apart; else 0.
uint64_t NewestStepOfTwo(const pb::Hello& hello, uint64_t run, uint64_t window) {
  std::vector<pb::Checkpoint> of_run;
  for (const auto* checkpoints : {&hello.checkpoints(), &hello.shard_checkpoints()}) {
    for (const pb::Checkpoint& checkpoint : *checkpoints) {
      if (checkpoint.run() == run) of_run.push_back(checkpoint);
    }
  }
  if (of_run.size() < 2) return 0;
  const auto [oldest, newest] =
      std::minmax_element(of_run.begin(), of_run.end(),
                          [](const auto& a, const auto& b) { return KeyOf(a) < KeyOf(b); });
  return newest->round() - oldest->round() < window ? 0 : newest->step();
}

bool Contains(const std::vector<pb::Checkpoint>& checkpoints, const pb::Checkpoint& checkpoint) {
  return std::any_of(checkpoints.begin(), checkpoints.end(), [&](const pb::Checkpoint& other) {
    return KeyOf(other) == KeyOf(checkpoint);
  });
}

// Returns the checkpoints, of either kind (recovery.h), that all data lanes of a server have, by
// ascending step.
std::vector<pb::Checkpoint> CommonOfEitherKind(const std::vector<SavedCheckpoints>& lanes) {
  std::vector<pb::Checkpoint> common = lanes.front().checkpoints;
  const auto& shard_checkpoints = lanes.front().shard_checkpoints;
  common.insert(common.end(), shard_checkpoints.begin(), shard_checkpoints.end());
  for (const SavedCheckpoints& lane : lanes) {
    std::erase_if(common, [&](const pb::Checkpoint& checkpoint) {
      return !Contains(lane.checkpoints, checkpoint) &&
             !Contains(lane.shard_checkpoints, checkpoint);
    });
  }
  std::sort(common.begin(), common.end(),
            [](const auto& a, const auto& b) { return KeyOf(a) < KeyOf(b); });
  return common;
}

}  // namespace

std::string HowToRestore() {
  return Cat("; mount or restore what is missing and start again, or ", kHowToBeginAnew);
}

void SavedCheckpoints::AddTo(pb::Hello* hello, bool is_run_under_way) const {
  for (const pb::Checkpoint& checkpoint : checkpoints) *hello->add_checkpoints() = checkpoint;
  if (unfit.has_sentence()) {
    *hello->mutable_unfit() = unfit;
  } else if (is_run_under_way && unfit_in_run.has_sentence()) {
    *hello->mutable_unfit() = unfit_in_run;
  }
  if (prepared_run != 0) hello->set_began(prepared_run);
  for (const pb::Checkpoint& checkpoint : shard_checkpoints)
    *hello->add_shard_checkpoints() = checkpoint;
}

SavedCheckpoints CommonCheckpoints(const std::vector<SavedCheckpoints>& lanes) {
  if (lanes.empty()) return {};
  const std::vector<pb::Checkpoint> common_of_either_kind = CommonOfEitherKind(lanes);
  SavedCheckpoints common = lanes.front();
  common.num_failed = 0;
  bool any_has_checkpoint = false;  // whether any lane has a checkpoint
  bool all_began_alike = true;      // whether all began one run, with at most one checkpoint
  for (const SavedCheckpoints& lane : lanes) {
    common.num_failed += lane.num_failed;
    any_has_checkpoint |= !lane.checkpoints.empty();
    all_began_alike &= lane.checkpoints.size() <= 1 && lane.prepared_run == common.prepared_run;
    std::erase_if(common.checkpoints, [&](const pb::Checkpoint& checkpoint) {
      return !Contains(lane.checkpoints, checkpoint);
    });
    if (!common.unfit.other_job() && lane.unfit.has_sentence()) common.unfit = lane.unfit;
    if (lane.unfit_in_run.has_sentence()) common.unfit_in_run = lane.unfit_in_run;
  }
  common.shard_checkpoints.clear();
  for (const pb::Checkpoint& checkpoint : common_of_either_kind) {
    if (!Contains(common.checkpoints, checkpoint)) common.shard_checkpoints.push_back(checkpoint);
  }
  if (all_began_alike || !common.checkpoints.empty()) return common;
  common.prepared_run = 0;
  if (any_has_checkpoint && !common.unfit.has_sentence())
    common.unfit.set_sentence("its data lanes have no checkpoint in common");
  return common;
}

std::string OtherSizeText(const pb::Checkpoint& checkpoint, uint32_t workers, uint32_t shards) {
  std::vector<std::string> sizes;
  if (checkpoint.has_workers())
    sizes.push_back(
        Cat(workers, workers == 1 ? " worker (" : " workers (", checkpoint.workers(), " before)"));
  if (checkpoint.has_shards()) {
    const bool is_other_number = checkpoint.shards() != 0 && checkpoint.shards() != shards;
    sizes.push_back(Cat(
        shards, shards == 1 ? " server shard (" : " server shards (",
        is_other_number ? Cat(checkpoint.shards(), " before") : "which divide it otherwise", ")"));
  }
  return Join(sizes, " and ");
}

namespace {

// The newest checkpoint that all daemons have that must have it.
std::optional<pb::Checkpoint> NewestOfAll(const std::vector<Offer>& offers, uint64_t max_round,
                                          size_t min_workers) {
  std::vector<Offer> required;
  std::vector<const google::protobuf::RepeatedPtrField<pb::Checkpoint>*> required_lists;
  for (const Offer& offer : offers) {
    if (!offer.is_required) continue;
    required.push_back(offer);
    required_lists.push_back(&offer.hello->checkpoints());
  }
  const auto choose = [&](const Attendance& attendance) {
    return NewestCommonCheckpoint(required_lists, max_round,
                                  [&](size_t index, const pb::Checkpoint& checkpoint) {
                                    return attendance.Needs(required[index], checkpoint);
                                  });
  };
  const Attendance members(required, min_workers, Attendance::Rule::kMembers);
  const std::optional<pb::Checkpoint> newest = choose(members);
  if (newest.has_value() && members.NumNewer(*newest, max_round) <= 1) return newest;
  return choose(Attendance(required, min_workers, Attendance::Rule::kAnyHolder));
}

}  // namespace

BeginPoint ChooseBeginPoint(const std::vector<Offer>& offers, std::optional<uint64_t> run,
                            uint64_t max_round, size_t min_workers) {
  std::vector<std::vector<pb::Checkpoint>> run_checkpoints;
  for (const Offer& offer : offers) {
    if (!run.has_value() || offer.hello->role() != pb::Hello::shard) continue;
    std::vector<pb::Checkpoint>& shard_checkpoints = run_checkpoints.emplace_back();
    for (const auto* checkpoints :
         {&offer.hello->checkpoints(), &offer.hello->shard_checkpoints()}) {
      std::copy_if(checkpoints->begin(), checkpoints->end(), std::back_inserter(shard_checkpoints),
                   [&](const pb::Checkpoint& checkpoint) { return checkpoint.run() == *run; });
    }
  }
  const BeginPoint common_begin{NewestOfAll(offers, max_round, min_workers), true};
  std::vector<const std::vector<pb::Checkpoint>*> shard_lists;
  for (const auto& checkpoints : run_checkpoints) shard_lists.push_back(&checkpoints);
  const BeginPoint shards_begin{NewestCommonCheckpoint(shard_lists, max_round), false};
  return shards_begin.round() > common_begin.round() ? shards_begin : common_begin;
}

void OfferCheckpointsOfRun(uint64_t run, pb::Hello* hello) {
  auto* const checkpoints = hello->mutable_checkpoints();
  for (const pb::Checkpoint& candidate : hello->shard_checkpoints()) {
    if (candidate.run() != run) continue;
    const bool is_known =
        std::any_of(checkpoints->begin(), checkpoints->end(),
                    [&](const pb::Checkpoint& known) { return KeyOf(known) == KeyOf(candidate); });
    if (!is_known) *checkpoints->Add() = candidate;
  }
  std::sort(checkpoints->begin(), checkpoints->end(),
            [](const auto& a, const auto& b) { return KeyOf(a) < KeyOf(b); });
}

size_t NumCheckpointsOfRun(const pb::Hello& hello, uint64_t run) {
  const auto is_of_run = [run](const pb::Checkpoint& checkpoint) {
    return checkpoint.run() == run;
  };
  const auto &common = hello.checkpoints(), &other = hello.shard_checkpoints();
  return static_cast<size_t>(std::count_if(common.begin(), common.end(), is_of_run) +
                             std::count_if(other.begin(), other.end(), is_of_run));
}

std::string WhereWeightsDiffer(const std::vector<Offer>& offers, uint64_t after_step) {
  const auto first = std::find_if(offers.begin(), offers.end(), [](const Offer& offer) {
    return offer.is_required && offer.hello->checkpoints_size() != 0;
  });
  if (first == offers.end()) return "";
  const Attendance attendance(offers, 0, Attendance::Rule::kMembers);
  std::string difference;
  for (const pb::Checkpoint& checkpoint : first->hello->checkpoints()) {  // The steps ascend.
    if (checkpoint.step() <= after_step || checkpoint.weights_hash() == 0) continue;
    const bool all_have_it = std::all_of(offers.begin(), offers.end(), [&](const Offer& offer) {
      return !attendance.Needs(offer, checkpoint) || offer.Find(checkpoint) != nullptr;
    });
    if (!all_have_it) continue;
    const auto other = std::find_if(first, offers.end(), [&](const Offer& offer) {
      const pb::Checkpoint* const own = offer.Find(checkpoint);
      return own != nullptr && attendance.Needs(offer, checkpoint) && own->weights_hash() != 0 &&
             own->weights_hash() != checkpoint.weights_hash();
    });
    difference = other == offers.end()
                     ? ""
                     : Cat("the weights in the checkpoint of step ", checkpoint.step(),
                           " differ: ", first->who, " has hash ", Hex(checkpoint.weights_hash()),
                           ", ", other->who, " has ", Hex(other->Find(checkpoint)->weights_hash()));
  }
  return difference;
}

bool AnyHasCheckpoint(const std::vector<Offer>& offers) {
  return std::any_of(offers.begin(), offers.end(), HasAnyCheckpoint);
}

bool AnyKnowsARun(const std::vector<Offer>& offers) {
  const bool any_was_prepared = std::any_of(offers.begin(), offers.end(), [](const Offer& offer) {
    return offer.hello->role() == pb::Hello::worker && offer.hello->began() != 0;
  });
  return (any_was_prepared || AnyHasCheckpoint(offers)) && WhyJobDoesNotFit(offers).empty();
}

namespace {

// If the job could go on although some workers lack the checkpoint, were there min_workers that
// took part in the run that wrote it: says so.
std::string WhyMinIsMissed(const std::vector<Offer>& offers, size_t min_workers) {
  const BeginPoint begin = ChooseBeginPoint(offers, std::nullopt);
  if (min_workers == 0 || !begin.checkpoint.has_value()) return "";
  return Cat("; with on_worker_loss: shrink the job goes on from step ", begin.checkpoint->step(),
             " if as many as workers.min (", min_workers,
             ") of those that are here took part in it");
}

}  // namespace

std::string WhyNotBeginAnew(const std::vector<Offer>& offers, size_t min_workers) {
  if (std::string other = WhyJobDoesNotFit(offers); !other.empty()) return other;
  if (!AnyHasCheckpoint(offers) || EndedBeforeFirstCheckpoint(offers)) return "";
  const std::string difference = WhereWeightsDiffer(offers, 0);
  return Cat("no checkpoint is on the disks of all: ", WhoHasWhat(offers),
             difference.empty() ? "" : "; ", difference, WhyMinIsMissed(offers, min_workers),
             HowToRestore());
}

std::string WhyNotGoBackToBeginning(const std::vector<Offer>& offers, uint64_t run,
                                    uint64_t window) {
  std::string holder;                // the daemon with the newest second checkpoint of the run
  uint64_t newest_step = 0;          // of that checkpoint
  std::vector<std::string> without;  // the shards whose disks may be missing
  std::vector<std::string> reasons;  // why there is nothing of a shard
  for (const Offer& offer : offers) {
    const pb::Hello& hello = *offer.hello;
    const bool is_shard = hello.role() == pb::Hello::shard;
    const uint64_t step = NewestStepOfTwo(hello, run, is_shard ? window : 0);
    if (is_shard && hello.has_unfit()) {
      reasons.push_back(Cat("checkpoints of ", offer.who, " cannot be used: ", SentenceOf(hello)));
    } else if (is_shard && hello.began() != run && NumCheckpointsOfRun(hello, run) == 0) {
      without.push_back(offer.who);
    } else if (step > newest_step) {
      newest_step = step;
      holder = offer.who;
    }
  }
  const size_t num_without = without.size();
  without.resize(std::min(num_without, kMaxNamed));
  if (num_without != 0)
    reasons.push_back(Cat("nothing of this run is on the disk of ", Join(without),
                          AndMore(num_without - without.size())));
  if (holder.empty() || reasons.empty()) return "";
  reasons.resize(std::min(reasons.size(), kMaxNamed));
  return Cat("the job would go back to its beginning: ", Join(reasons, "; "), ", while ", holder,
             " has a checkpoint of step ", newest_step, HowToRestore());
}

}  // namespace tern::protocol
