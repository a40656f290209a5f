#include "tests/sim/clock_cell.h"

#include <string>

namespace tern::sim {

ToyClockCell::ToyClockCell(const protocol::Cell& cell, const Schedule& schedule,
                           ClockLedger* ledger, const Report* report)
    : cell_(cell), change_every_(schedule.clocks.change_every), ledger_(*ledger), report_(*report) {
  state_.given.assign(schedule.workers, {0, 0});
  ledger_.HadState(cell_, 0, state_.word);
}

Status ToyClockCell::Push(uint32_t rank, uint64_t base, const Bytes& payload) {
  const std::vector<uint64_t> words = DecodeWords(payload);
  if (words.size() != 2) return Status(Code::kMismatch, "not a toy push");
  if (base > state_.version) report_("a push has a base that does not exist yet");
  if (!state_.counted.insert({rank, words[0]}).second) {
    report_("clock " + std::to_string(words[0]) + " of rank " + std::to_string(rank) +
            " is counted twice in " + ToString(cell_, words[0]));
  }
  ledger_.Counted(cell_, words[1]);
  ++state_.pushes;
  state_.gathered = Combine(state_.gathered, words[1]);
  if (state_.pushes % change_every_ != 0) return Ok();
  state_.word = Combine(state_.word, state_.gathered);
  state_.gathered = 0;
  ledger_.HadState(cell_, ++state_.version, state_.word);
  return Ok();
}

protocol::ClockCell::Answer ToyClockCell::Pull(uint32_t rank, std::optional<uint64_t> holds) {
  auto& [version, word] = state_.given[rank];
  const bool whole = word == 0 || holds != version;
  const auto from = whole ? std::pair<uint64_t, uint64_t>{} : std::pair{version, word};
  version = state_.version;
  word = state_.word;
  return {EncodeWords({from.first, from.second, version, word}), whole};
}

ToyClockLane::ToyClockLane(protocol::LaneRef lane, const Schedule& schedule, const Layout& layout,
                           uint64_t incarnation, const protocol::Safeguards& safeguards,
                           ClockLedger* ledger, const Report* report, Disk* disk)
    : name_(lane), save_every_(schedule.clocks.save_every), disk_(*disk) {
  protocol::ClockLane::Options options;
  options.workers = schedule.workers;
  options.incarnation = incarnation;
  options.pushes = [&schedule](uint64_t) { return schedule.clocks.pushes; };
  options.bound = schedule.clocks.bound;
  options.max_staleness = schedule.clocks.max_staleness;
  options.safeguards = safeguards;
  std::vector<protocol::ClockCellSpec> specs;
  for (const protocol::Cell& cell : layout.CellsAt(lane)) {
    auto made = std::make_unique<ToyClockCell>(cell, schedule, ledger, report);
    cells_.push_back(made.get());
    specs.push_back({cell, std::move(made)});
  }
  lane_ = std::make_unique<protocol::ClockLane>(std::move(options), std::move(specs));
}

void ToyClockLane::Load() {
  if (std::exchange(loaded_, true)) return;
  const auto found = disk_.find(name_);
  if (found == disk_.end()) return;
  for (ToyClockCell* cell : cells_) {
    const SavedLane::Cell& saved = found->second.cells.at(cell->cell());
    cell->Restore(saved.state);
    lane_->Restore(cell->cell(), saved.clocks);
  }
}

void ToyClockLane::SaveIfDue() {
  if (cells_.empty() || !loaded_) return;
  const uint64_t total = lane_->total();
  const auto found = disk_.find(name_);
  const uint64_t saved = found == disk_.end() ? 0 : found->second.total;
  if (total / save_every_ == saved / save_every_ && total >= saved) return;
  SavedLane& now = disk_[name_];
  now.total = total;
  for (const ToyClockCell* cell : cells_)
    now.cells[cell->cell()] = {cell->state(), lane_->clocks(cell->cell())};
}

}  // namespace tern::sim
