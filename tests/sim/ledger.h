// What was contributed to every slot, to hold every outcome against: the sum over those whom it
// names, of what those gave.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/protocol/rounds/exchange.h"

namespace tern::sim {

class Ledger {
 public:
  explicit Ledger(uint32_t workers) : workers_(workers) {}

  // A rank may give more than one value: its processes come to a round at different states where
  // rounds close without some.
  void Contributed(const protocol::Cell& cell, uint64_t round, uint32_t rank, uint64_t word);
  // What is wrong with an outcome, or nothing. `sum`: its payload is the sum, and no weights.
  std::string Check(const protocol::Exchange::Delivery& answer, bool sum) const;

 private:
  using Words = std::vector<uint64_t>;
  const Words* Given(const protocol::Cell& cell, uint64_t round, uint32_t rank) const;

  uint32_t workers_;
  std::map<std::tuple<uint64_t, protocol::Cell, uint32_t>, Words> given_;
};

}  // namespace tern::sim
