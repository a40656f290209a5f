#include "tests/sim/central_lane.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "common/protocol/members/recovery.h"

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
  CentralWord& word = words_.at(cell);
  word.before = word.now;
  ++word.round;
  if (!sum.empty()) word.now = Combine(word.now, DecodeWord(sum));
  SaveIfDue(cell);
  return sum.empty() ? Bytes() : EncodeWords({DecodeWord(sum), word.now, beginning_});
}

CellSpec::Pulled ToyCentralLane::Pull(const Cell& cell) const {
  const CentralWord& word = words_.at(cell);
  return {EncodeWords({word.before, word.now, beginning_}), true};
}

void ToyCentralLane::SaveIfDue(const Cell& cell) {
  const CentralWord& word = words_.at(cell);
  if (word.round % schedule_.save_every != 0) return;
  CentralWords& copy = copies_[word.round];
  copy[cell] = word;
  if (copy.size() < words_.size()) return;
  saved()[word.round] = std::move(copy);
  copies_.erase(word.round);
  const uint64_t keep = protocol::LeastToKeep(schedule_.save_every, schedule_.lane_window());
  while (saved().size() > keep) saved().erase(saved().begin());
}

bool ToyCentralLane::Begin(const pb::Members& members) {
  if (members.run() != run_) {
    run_ = members.run();
    auto& of_lane = disk_[name_];
    std::erase_if(of_lane, [this](const auto& one) { return one.first != run_; });
  }
  if (!members.has_beginning() || members.beginning() == beginning_) return false;
  beginning_ = members.beginning();
  Load(members.has_resume() ? members.resume().round() : 0);
  return true;
}

void ToyCentralLane::Load(uint64_t to) {
  copies_.clear();
  if (to != 0 && !saved().contains(to)) {
    return (*report_)("lane " + std::to_string(name_.shard) + "." + std::to_string(name_.lane) +
                      " is told to go back to round " + std::to_string(to) +
                      ", and has no checkpoint of it");
  }
  for (auto& [cell, word] : words_) word = to == 0 ? InitialWord(cell) : saved()[to].at(cell);
  saved().erase(saved().upper_bound(to), saved().end());
}

protocol::Saved SavedOf(const CentralDisk& disk, const Layout& layout, const Schedule& schedule,
                        uint32_t shard) {
  std::vector<protocol::Saved> of_lanes;
  for (uint32_t l = 1; l <= schedule.data_lanes[shard]; ++l) {
    if (layout.CellsAt({shard, l}).empty()) continue;
    protocol::Saved& saved = of_lanes.emplace_back();
    const auto of_lane = disk.find({shard, l});
    if (of_lane == disk.end()) continue;
    for (const auto& [run, rounds] : of_lane->second) {
      for (const auto& [round, words] : rounds) {
        pb::Checkpoint& one = saved.shard_checkpoints.emplace_back();
        one.set_run(run);
        one.set_step(round);
        one.set_round(round);
      }
    }
  }
  return protocol::CommonOf(of_lanes);
}

}  // namespace tern::sim
