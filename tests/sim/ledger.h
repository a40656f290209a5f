// Records what each rank contributed to every slot, and checks every outcome against that: its sum
// must be over the contributions of the ranks that it names.
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

  // A rank may contribute several values to a slot: if rounds close without some workers, its
  // processes may reach a round in different states.
  void Contributed(const protocol::Cell& cell, uint64_t round, uint32_t rank, uint64_t word);
  // Returns what is wrong with an outcome, or an empty string. `sum`: its payload is a sum and not
  // weights.
  std::string Check(const protocol::Exchange::Delivery& answer, bool sum) const;

 private:
  using Words = std::vector<uint64_t>;
  const Words* Given(const protocol::Cell& cell, uint64_t round, uint32_t rank) const;

  uint32_t workers_;
  std::map<std::tuple<uint64_t, protocol::Cell, uint32_t>, Words> given_;
};

}  // namespace tern::sim
