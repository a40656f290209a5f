// Records the history of a simulated job without rounds, to check the servers and workers against
// it. In such a job every worker pushes at its own pace and numbers its pushes from 1: the number
// is the worker's clock. A cell is the unit of a push: a piece of the model (a chunk of a bucket)
// whose weights one server holds. The ledger records which pushes every cell has counted (applied
// to its weights), every state of the cell's weights, and the clock of every rank.
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
    uint64_t word = 0;  // the payload: the bits of two floats
  };
  struct Weights {
    uint64_t version = 0;  // how many updates the weights have had
    uint64_t word = 0;     // the bits of two floats
    bool operator==(const Weights&) const = default;
  };
  explicit ClockLedger(uint32_t workers) : clocks_(workers), has_parted_(workers) {}

  // Records that a cell has counted one more push and has the weights `new_weights` after it.
  // Returns what is wrong with that, or an empty string.
  std::string RecordCounted(const protocol::Cell& cell, const Push& push,
                            const Weights& new_weights, const Schedule& schedule);
  // Records that a restarted cell continues after its first `num_pushes` pushes with the weights
  // `new_weights`, and forgets its later pushes. Returns false if the cell did not have these
  // weights after that number of pushes.
  bool RestartFrom(const protocol::Cell& cell, uint64_t num_pushes, const Weights& new_weights);
  // The number of pushes that the cell has counted.
  uint64_t total(const protocol::Cell& cell) { return pushes_by_cell_[cell].size(); }
  // Whether the cell ever had these weights.
  bool HadWeights(const protocol::Cell& cell, const Weights& weights) const {
    return weights == Weights{} || past_weights_.contains({cell, weights.version, weights.word});
  }
  // Whether the cell has ever counted a push with this payload.
  bool WasCounted(const protocol::Cell& cell, uint64_t word) const {
    return counted_words_.contains({cell, word});
  }
  // Records that the rank pushes at this clock or continues from it.
  void RecordClock(uint32_t rank, uint64_t clock) {
    clocks_[rank] = std::max(clocks_[rank], clock);
  }
  // Records that the rank has sent its Parting, the message that ends its pushes.
  void RecordParting(uint32_t rank) { has_parted_[rank] = true; }
  bool HasParted(uint32_t rank) const { return has_parted_[rank]; }
  // The highest clock recorded for the rank.
  uint64_t clock(uint32_t rank) const { return clocks_[rank]; }

 private:
  struct CountedPush {
    Push push;
    Weights weights_after;
  };
  // For each cell, the pushes that led to its present weights, in the order of their counting.
  std::map<protocol::Cell, std::vector<CountedPush>> pushes_by_cell_;
  // Every state that the weights of a cell have had, as (cell, version, word).
  std::set<std::tuple<protocol::Cell, uint64_t, uint64_t>> past_weights_;
  // The payload words of all pushes that any cell has counted, as (cell, word).
  std::set<std::pair<protocol::Cell, uint64_t>> counted_words_;
  std::vector<uint64_t> clocks_;  // indexed by rank
  std::vector<bool> has_parted_;  // indexed by rank
};

}  // namespace tern::sim
