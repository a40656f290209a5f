// What a job without rounds has seen: every state that a cell ever had, every push that was
// counted, and how far each rank has got.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "common/protocol/rounds/message.h"

namespace tern::sim {

class ClockLedger {
 public:
  explicit ClockLedger(uint32_t workers) : clocks_(workers), parted_(workers) {}

  void HadState(const protocol::Cell& cell, uint64_t version, uint64_t word) {
    states_.insert({cell, version, word});
  }
  bool WasState(const protocol::Cell& cell, uint64_t version, uint64_t word) const {
    return states_.contains({cell, version, word});
  }
  void Counted(const protocol::Cell& cell, uint64_t word) { counted_.insert({cell, word}); }
  bool WasCounted(const protocol::Cell& cell, uint64_t word) const {
    return counted_.contains({cell, word});
  }
  // The rank pushes, or goes on from, this clock.
  void IsAt(uint32_t rank, uint64_t clock) { clocks_[rank] = std::max(clocks_[rank], clock); }
  // It has told that it takes no further part.
  void Parted(uint32_t rank) { parted_[rank] = true; }
  bool HasParted(uint32_t rank) const { return parted_[rank]; }
  uint64_t clock(uint32_t rank) const { return clocks_[rank]; }

 private:
  std::set<std::tuple<protocol::Cell, uint64_t, uint64_t>> states_;
  std::set<std::pair<protocol::Cell, uint64_t>> counted_;
  std::vector<uint64_t> clocks_;
  std::vector<bool> parted_;
};

}  // namespace tern::sim
