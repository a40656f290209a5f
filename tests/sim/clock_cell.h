// A cell of the toy job without rounds: one integer, which every push, or every change_every-th,
// changes. Payloads are rows of words:
//
//   push     clock, word
//   answer   version and word of the base (0, 0: the answer is whole), version and word now
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/clock_lane.h"
#include "tests/sim/clock_ledger.h"
#include "tests/sim/schedule.h"
#include "tests/sim/toy.h"

namespace tern::sim {

class ToyClockCell : public protocol::ClockCell {
 public:
  struct State {
    uint64_t word = 1, pushes = 0, version = 0;
    uint64_t gathered = 0;                             // pushes that have made no change yet
    std::set<std::pair<uint32_t, uint64_t>> counted;   // rank, clock
    std::vector<std::pair<uint64_t, uint64_t>> given;  // by rank: version, word
  };
  ToyClockCell(const protocol::Cell& cell, const Schedule& schedule, ClockLedger* ledger,
               const Report* report);

  Status Push(uint32_t rank, uint64_t base, const Bytes& payload) override;
  uint64_t version() const override { return state_.version; }
  Answer Pull(uint32_t rank, std::optional<uint64_t> holds) override;
  Bytes Average() const override { return EncodeWords({0, 0, state_.version, state_.word}); }

  const protocol::Cell& cell() const { return cell_; }
  const State& state() const { return state_; }
  void Restore(const State& state) { state_ = state; }

 private:
  protocol::Cell cell_;
  uint64_t change_every_;
  ClockLedger& ledger_;
  const Report& report_;
  State state_;
};

// A data lane of a server process, and its checkpoint.
struct SavedLane {
  struct Cell {
    ToyClockCell::State state;
    protocol::CellClocks clocks;
  };
  uint64_t total = 0;
  std::map<protocol::Cell, Cell> cells;
};
using Disk = std::map<protocol::LaneRef, SavedLane>;

class ToyClockLane {
 public:
  ToyClockLane(protocol::LaneRef lane, const Schedule& schedule, const Layout& layout,
               uint64_t incarnation, const protocol::Safeguards& safeguards, ClockLedger* ledger,
               const Report* report, Disk* disk);

  protocol::ClockLane& lane() { return *lane_; }
  const protocol::ClockLane& lane() const { return *lane_; }
  bool has_cells() const { return !cells_.empty(); }
  // Before it follows its first membership: it goes on from its checkpoint.
  void Load();
  void SaveIfDue();

 private:
  protocol::LaneRef name_;
  uint64_t save_every_;
  Disk& disk_;
  std::unique_ptr<protocol::ClockLane> lane_;
  std::vector<ToyClockCell*> cells_;
  bool loaded_ = false;
};

}  // namespace tern::sim
