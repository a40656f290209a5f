// Where servers hold the parameters and there are rounds, a server that dies takes the newest of
// them with it. Then the whole job goes back to the newest round that every shard has a snapshot of
// (or to the initial parameters), which shard 0 finds out so:
//
//                       all workers              all shards
//                       have come anew           have answered
//   running --1--> gathering ------------> asking -----------> running
//                      ^                      |                   |
//                      +----------1-----------+---------1---------+
//
//   1          a shard says hello as another process; or no live worker holds the parameters any
//              more; or shard 0 itself is new, and the workers that it gathers had begun
//   gathering  GoBack to every worker that was ever admitted: what it holds is void, and it says
//              hello as a new incarnation, which knows nothing but the run
//   asking     GoBack to every shard, which answers with its snapshots of this run
//   running    Members to every shard, with another `beginning`: its lanes go back to what they
//              were after round `begin`, forget everybody and let in who is a member now. Welcome
//              to every worker, with `begin`: it pulls the parameters from the lanes (session.h)
//
// Nothing but snapshots is needed for it, and one that all shards have stays until all have a newer
// one (SnapshotsToKeep), so it may be begun again at any point. Messages of before are fenced by
// incarnations: all workers have new ones, so no lane that has gone back takes an old push; and
// their connections are new, so none hears an old answer. The first beginning of a job is the same
// without the questions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tern::protocol {

// How many of its newest snapshots, one every so many rounds, a lane keeps on disk. When it closes
// round r, all lanes have closed r - window, and have older snapshots on disk, since none closes a
// round before the snapshot of an earlier one is there. So that the oldest one kept is one of
// those:
constexpr uint64_t SnapshotsToKeep(uint64_t every, uint64_t window) {
  return 1 + (window + every) / every;  // 1 + (window + 1) / every, rounded up
}

// What the shards answered.
class SnapshotPoll {
 public:
  explicit SnapshotPoll(uint32_t shards) : shards_(shards) {}

  void Clear() { answers_.clear(); }
  void Forget(uint32_t shard) { answers_.erase(shard); }
  void Put(uint32_t shard, std::vector<uint64_t> rounds) {
    std::sort(rounds.begin(), rounds.end());
    answers_[shard] = std::move(rounds);
  }
  bool Has(uint32_t shard) const { return answers_.contains(shard); }

  // The newest round that all have, 0 if there is none; nothing while an answer is missing.
  std::optional<uint64_t> NewestOfAll() const {
    if (answers_.size() < shards_) return std::nullopt;
    std::vector<uint64_t> common = answers_.begin()->second;
    for (const auto& [shard, rounds] : answers_) {
      std::vector<uint64_t> both;
      std::set_intersection(common.begin(), common.end(), rounds.begin(), rounds.end(),
                            std::back_inserter(both));
      common = std::move(both);
    }
    return common.empty() ? 0 : common.back();
  }

 private:
  const uint32_t shards_;
  std::map<uint32_t, std::vector<uint64_t>> answers_;
};

}  // namespace tern::protocol
