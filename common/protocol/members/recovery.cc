#include "common/protocol/members/recovery.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::protocol {

namespace {

// How many groups of daemons an error message names, and how many daemons it names per group.
constexpr size_t kMaxNamed = 6;
constexpr size_t kMaxSentenceBytes = 600;  // how much of another daemon's sentence a message quotes

constexpr const char* kHowToBeginAnew =
    "begin anew with --set checkpoints.resume=false, which keeps what is there under another name";

std::string AndMore(size_t more) { return more == 0 ? "" : Cat(" and ", more, " more"); }

std::string SentenceOf(const pb::Hello& hello) {
  return Printable(hello.unfit().sentence(), kMaxSentenceBytes);
}

bool HasAnyCheckpoint(const Offer& offer) {
  return offer.hello->checkpoints_size() != 0 || offer.hello->has_unfit();
}

std::string WhyAnotherJob(const std::vector<Offer>& offers) {
  const Offer* first = nullptr;
  size_t more = 0;
  for (const Offer& offer : offers) {
    if (!offer.hello->unfit().other_job()) continue;
    more += first != nullptr;
    if (first == nullptr) first = &offer;
  }
  if (first == nullptr) return "";
  return Cat("this job does not fit the checkpoints of ", first->who,
             more == 0 ? "" : Cat(AndMore(more), more == 1 ? " daemon" : " daemons"), ": ",
             SentenceOf(*first->hello),
             "; start the job that wrote them, give another output_dir, or ", kHowToBeginAnew);
}

// Whether every daemon whose offer counts had started the same run and has at most one checkpoint
// of that run. Then the run ended before all daemons had written their first checkpoint.
bool EndedBeforeItsFirst(const std::vector<Offer>& offers) {
  std::set<uint64_t> runs;
  for (const Offer& offer : offers) {
    if (offer.hello->has_unfit()) return false;
    if (!offer.counts) continue;
    runs.insert(offer.hello->began());
    if (offer.hello->checkpoints_size() > 1) return false;
    for (const pb::Checkpoint& one : offer.hello->checkpoints()) runs.insert(one.run());
  }
  return runs.size() == 1 && *runs.begin() != 0;
}

std::string StepsOf(const pb::Hello& hello, bool name_runs) {
  const auto& all = hello.checkpoints();
  std::string text = "none";
  if (hello.has_unfit()) text = "none that is whole: " + SentenceOf(hello);
  if (all.empty()) return text;
  const uint64_t oldest = all[0].step(), newest = all[all.size() - 1].step();
  text = all.size() == 1 ? Cat("step ", oldest)
                         : Cat("steps ", oldest, all.size() == 2 ? " and " : " to ", newest);
  return name_runs ? Cat(text, " of run ", Hex(all[all.size() - 1].run())) : text;
}

// Returns for example "worker 0 (node1), worker 1 (node2) have steps 10 and 20, worker 2 (node3)
// has none".
std::string WhoHasWhat(const std::vector<Offer>& offers) {
  std::set<uint64_t> runs;
  for (const Offer& offer : offers) {
    for (const pb::Checkpoint& one : offer.hello->checkpoints()) runs.insert(one.run());
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // (what, who)
  std::map<std::string, size_t> group_of;
  for (const Offer& offer : offers) {
    if (!offer.counts && !HasAnyCheckpoint(offer)) continue;
    const std::string what = StepsOf(*offer.hello, runs.size() > 1);
    const auto [at, is_new] = group_of.emplace(what, groups.size());
    if (is_new) groups.push_back({what, {}});
    groups[at->second].second.push_back(offer.who);
  }
  std::vector<std::string> phrases;
  for (auto& [what, who] : groups) {
    const size_t all = who.size(), named = std::min(all, kMaxNamed);
    who.resize(named);
    phrases.push_back(Cat(Join(who), AndMore(all - named), all == 1 ? " has " : " have ", what));
  }
  const size_t all = phrases.size(), named = std::min(all, kMaxNamed);
  phrases.resize(named);
  return Join(phrases, "; ") +
         (all == named ? "" : Cat("; the others differ too (", all, " kinds)"));
}

bool Has(const std::vector<pb::Checkpoint>& all, const pb::Checkpoint& one) {
  return std::any_of(all.begin(), all.end(),
                     [&](const pb::Checkpoint& other) { return KeyOf(other) == KeyOf(one); });
}

// Returns the checkpoints, of either kind, that all lanes have, by ascending step.
std::vector<pb::Checkpoint> CommonOfEitherKind(const std::vector<Saved>& lanes) {
  std::vector<pb::Checkpoint> common = lanes.front().checkpoints;
  const auto& others = lanes.front().shard_checkpoints;
  common.insert(common.end(), others.begin(), others.end());
  for (const Saved& lane : lanes) {
    std::erase_if(common, [&](const pb::Checkpoint& one) {
      return !Has(lane.checkpoints, one) && !Has(lane.shard_checkpoints, one);
    });
  }
  std::sort(common.begin(), common.end(),
            [](const auto& a, const auto& b) { return KeyOf(a) < KeyOf(b); });
  return common;
}

}  // namespace

void Saved::AddTo(pb::Hello* hello) const {
  for (const pb::Checkpoint& one : checkpoints) *hello->add_checkpoints() = one;
  if (unfit.has_sentence()) *hello->mutable_unfit() = unfit;
  if (began != 0) hello->set_began(began);
  for (const pb::Checkpoint& one : shard_checkpoints) *hello->add_shard_checkpoints() = one;
}

Saved CommonOf(const std::vector<Saved>& lanes) {
  if (lanes.empty()) return {};
  const std::vector<pb::Checkpoint> of_either_kind = CommonOfEitherKind(lanes);
  Saved common = lanes.front();
  bool any = false;   // whether any lane has a checkpoint
  bool early = true;  // whether all lanes have at most one checkpoint, of the same run
  for (const Saved& lane : lanes) {
    any |= !lane.checkpoints.empty();
    early &= lane.checkpoints.size() <= 1 && lane.began == common.began;
    std::erase_if(common.checkpoints,
                  [&](const pb::Checkpoint& one) { return !Has(lane.checkpoints, one); });
    if (!common.unfit.other_job() && lane.unfit.has_sentence()) common.unfit = lane.unfit;
  }
  common.shard_checkpoints.clear();
  for (const pb::Checkpoint& one : of_either_kind) {
    if (!Has(common.checkpoints, one)) common.shard_checkpoints.push_back(one);
  }
  if (early || !common.checkpoints.empty()) return common;
  common.began = 0;
  if (any && !common.unfit.has_sentence())
    common.unfit.set_sentence("its data lanes have no checkpoint in common");
  return common;
}

Begin Choose(const std::vector<Offer>& offers, std::optional<uint64_t> run) {
  std::vector<const google::protobuf::RepeatedPtrField<pb::Checkpoint>*> counted;
  std::vector<std::vector<pb::Checkpoint>> of_shards;
  for (const Offer& offer : offers) {
    if (offer.counts) counted.push_back(&offer.hello->checkpoints());
    if (!run.has_value() || offer.hello->role() != pb::Hello::shard) continue;
    std::vector<pb::Checkpoint>& all = of_shards.emplace_back();
    for (const auto* kind : {&offer.hello->checkpoints(), &offer.hello->shard_checkpoints()}) {
      std::copy_if(kind->begin(), kind->end(), std::back_inserter(all),
                   [&](const pb::Checkpoint& one) { return one.run() == *run; });
    }
  }
  const Begin of_all{NewestOfAll(counted), true};
  std::vector<const std::vector<pb::Checkpoint>*> shards;
  for (const auto& one : of_shards) shards.push_back(&one);
  const Begin of_all_shards{NewestOfAll(shards), false};
  return of_all_shards.round() > of_all.round() ? of_all_shards : of_all;
}

bool HasAny(const std::vector<Offer>& offers) {
  return std::any_of(offers.begin(), offers.end(), HasAnyCheckpoint);
}

std::string WhyNotBeginAnew(const std::vector<Offer>& offers) {
  if (std::string other = WhyAnotherJob(offers); !other.empty()) return other;
  if (!HasAny(offers) || EndedBeforeItsFirst(offers)) return "";
  return Cat("no checkpoint is on the disks of all: ", WhoHasWhat(offers),
             "; mount or restore what is missing and start again, or ", kHowToBeginAnew);
}

}  // namespace tern::protocol
