// The history of a simulated job without rounds, for the judge: the pushes that every cell has
// counted, every state of its weights, and how far each rank has come.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/protocol/rounds/message.h"
#include "tests/sim/schedule.h"

namespace tern::sim {

class ClockLedger {
 public:
  struct Push {
    uint32_t rank = 0;
    uint64_t clock = 0;
    uint64_t word = 0;  // the payload
  };
  struct Weights {
    uint64_t version = 0;
    uint64_t word = 0;
    bool operator==(const Weights&) const = default;
  };
  explicit ClockLedger(uint32_t workers) : clocks_(workers), parted_(workers) {}

  // A cell has counted one more push, and has the weights `now`. Returns what is wrong with that,
  // or an empty string.
  std::string Counted(const protocol::Cell& cell, const Push& push, const Weights& now,
                      const Schedule& schedule);
  // A restarted cell continues after `total` pushes with the weights `now`. Returns false if it
  // never was in that state.
  bool GoesOnFrom(const protocol::Cell& cell, uint64_t total, const Weights& now);
  uint64_t total(const protocol::Cell& cell) { return past_[cell].size(); }
  bool WasState(const protocol::Cell& cell, const Weights& weights) const {
    return weights == Weights{} || states_.contains({cell, weights.version, weights.word});
  }
  bool WasCounted(const protocol::Cell& cell, uint64_t word) const {
    return counted_.contains({cell, word});
  }
  // The rank pushes at this clock, or continues from it.
  void IsAt(uint32_t rank, uint64_t clock) { clocks_[rank] = std::max(clocks_[rank], clock); }
  // The rank has sent its Parting.
  void Parted(uint32_t rank) { parted_[rank] = true; }
  bool HasParted(uint32_t rank) const { return parted_[rank]; }
  uint64_t clock(uint32_t rank) const { return clocks_[rank]; }

 private:
  struct Entry {
    Push push;
    Weights after;
  };
  // By cell: the pushes that its weights are made of, in order.
  std::map<protocol::Cell, std::vector<Entry>> past_;
  std::set<std::tuple<protocol::Cell, uint64_t, uint64_t>> states_;
  // Words of all pushes that were ever counted
  std::set<std::pair<protocol::Cell, uint64_t>> counted_;
  std::vector<uint64_t> clocks_;
  std::vector<bool> parted_;
};

}  // namespace tern::sim
