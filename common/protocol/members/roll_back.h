// Where servers hold the parameters and there are rounds, the newest parameters are lost with a
// server. Then the whole job goes back to the newest round of which every shard has a snapshot (or
// to the initial parameters). Shard 0 drives it:
//
//                       all workers              all shards
//                       have come anew           have answered
//   running --1--> gathering ------------> asking -----------> running
//                      ^                      |                   |
//                      +----------1-----------+---------1---------+
//
//   1          a shard says hello as a new process; or no live worker holds the parameters any
//              more; or shard 0 itself is new, and the workers that it gathers had begun
//   gathering  GoBack to every worker that was ever admitted: its state is void, and it says hello
//              as a new incarnation that knows nothing but the run
//   asking     GoBack to every shard, which answers with its snapshots of this run
//   running    Members to every shard, with a new `beginning`: its lanes restore their state after
//              round `begin`, forget all members and admit the new ones. Welcome with `begin` to
//              every worker: it pulls the parameters from the lanes (session.h)
//
// Going back needs only snapshots, and a snapshot that all shards have is kept until all have a
// newer one (SnapshotsToKeep), so it may start again at any point. Old messages are fenced by
// incarnations: all workers have new ones, so no lane that has gone back takes an old push; and
// their connections are new, so no worker hears an old answer. A job's first start is the same
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

// How many snapshots, taken every `every` rounds, a lane keeps on disk. When a lane closes round r,
// all lanes have closed round r - window, and have the snapshots before it on disk, because no lane
// closes a round before the snapshot of an earlier one is written. With this many, the oldest one
// kept is a snapshot that all lanes have.
constexpr uint64_t SnapshotsToKeep(uint64_t every, uint64_t window) {
  return 1 + (window + every) / every;  // 1 + (window + 1) / every, rounded up
}

// The shards' answers.
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

  // The newest round that all shards have, 0 if there is none; nothing while an answer is missing.
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
