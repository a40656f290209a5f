#include "tests/sim/central_lane.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "common/protocol/members/roll_back.h"

namespace tern::sim {

using protocol::Cell;
using protocol::CellSpec;
using protocol::Kind;

namespace {

CentralWord InitialWord(const Cell& cell) {
  const uint64_t word = InitialState()[cell.bucket * kChunks + cell.chunk];
  return {word, word, 0};
}

class CentralSum : public protocol::CellSum {
 public:
  CentralSum(std::unique_ptr<protocol::CellSum> sum, std::function<Bytes(const Bytes&)> close)
      : sum_(std::move(sum)), close_(std::move(close)) {}

  Status Add(uint32_t rank, const Bytes& payload) override {
    any_ = true;
    return sum_->Add(rank, payload);
  }
  Bytes Close() override { return close_(any_ ? sum_->Close() : Bytes()); }

 private:
  std::unique_ptr<protocol::CellSum> sum_;
  std::function<Bytes(const Bytes&)> close_;
  bool any_ = false;
};

}  // namespace

ToyCentralLane::ToyCentralLane(protocol::LaneRef name, const Schedule& schedule,
                               const Layout& layout, const Report* report, CentralDisk* disk)
    : name_(name), schedule_(schedule), layout_(layout), report_(report), disk_(*disk) {
  for (const Cell& cell : layout.CellsAt(name)) {
    if (cell.kind == Kind::kPush) words_[cell] = InitialWord(cell);
  }
}

std::vector<CellSpec> ToyCentralLane::Cells() {
  std::vector<CellSpec> cells = layout_.RoundCells(name_, report_);
  for (CellSpec& spec : cells) {
    const Cell cell = spec.cell;
    spec.every_round = true;
    spec.open = [this, cell, open = std::move(spec.open)](uint64_t round) {
      return std::make_unique<CentralSum>(
          open(round), [this, cell](const Bytes& sum) { return Close(cell, sum); });
    };
    spec.check_outcome = [](const Bytes& payload, uint32_t) {
      return payload.size() == 3 * sizeof(uint64_t) ? Ok()
                                                    : Status(Code::kMismatch, "not a toy outcome");
    };
    spec.pull = [this, cell](bool) { return Pull(cell); };
  }
  return cells;
}

Bytes ToyCentralLane::Close(const Cell& cell, const Bytes& sum) {
  Flush();
  CentralWord& word = words_.at(cell);
  word.before = word.now;
  ++word.round;
  if (!sum.empty()) word.now = Combine(word.now, DecodeWord(sum));
  CopyIfDue(cell);
  return sum.empty() ? Bytes() : EncodeWords({DecodeWord(sum), word.now, beginning_});
}

CellSpec::Pulled ToyCentralLane::Pull(const Cell& cell) const {
  const CentralWord& word = words_.at(cell);
  return {EncodeWords({word.before, word.now, beginning_}), true};
}

void ToyCentralLane::CopyIfDue(const Cell& cell) {
  const CentralWord& word = words_.at(cell);
  if (word.round % schedule_.snapshot_every != 0) return;
  CentralSnapshot& copy = copies_[word.round];
  copy[cell] = word;
  if (copy.size() < words_.size()) return;
  writing_[word.round] = std::move(copy);
  copies_.erase(word.round);
}

void ToyCentralLane::Flush() {
  for (auto& [round, snapshot] : writing_) snapshots()[round] = std::move(snapshot);
  writing_.clear();
  const uint64_t keep =
      protocol::SnapshotsToKeep(schedule_.snapshot_every, schedule_.lane_window());
  while (snapshots().size() > keep) snapshots().erase(snapshots().begin());
}

bool ToyCentralLane::Begin(const pb::Members& members) {
  if (members.run() != run_) {
    run_ = members.run();
    auto& of_lane = disk_[name_];
    std::erase_if(of_lane, [this](const auto& one) { return one.first != run_; });
  }
  if (!members.has_beginning() || members.beginning() == beginning_) return false;
  beginning_ = members.beginning();
  Load(members.begin());
  return true;
}

void ToyCentralLane::Load(uint64_t to) {
  Flush();
  copies_.clear();
  if (to != 0 && !snapshots().contains(to)) {
    return (*report_)("lane " + std::to_string(name_.shard) + "." + std::to_string(name_.lane) +
                      " is told to go back to round " + std::to_string(to) +
                      ", and has no snapshot of it");
  }
  for (auto& [cell, word] : words_) word = to == 0 ? InitialWord(cell) : snapshots()[to].at(cell);
  snapshots().erase(snapshots().upper_bound(to), snapshots().end());
}

std::vector<uint64_t> SnapshotsOf(const CentralDisk& disk, const Layout& layout,
                                  const Schedule& schedule, uint32_t shard, uint64_t run) {
  std::map<uint64_t, uint32_t> lanes_with;  // by round
  uint32_t lanes = 0;
  for (uint32_t l = 1; l <= schedule.data_lanes[shard]; ++l) {
    if (layout.CellsAt({shard, l}).empty()) continue;
    ++lanes;
    const auto of_lane = disk.find({shard, l});
    if (of_lane == disk.end() || !of_lane->second.contains(run)) continue;
    for (const auto& [round, snapshot] : of_lane->second.at(run)) ++lanes_with[round];
  }
  std::vector<uint64_t> rounds;
  for (const auto& [round, count] : lanes_with) {
    if (count == lanes) rounds.push_back(round);
  }
  return rounds;
}

}  // namespace tern::sim
