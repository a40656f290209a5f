// Records what each rank contributed to every slot (a cell in one round; a cell is one reduction
// over the workers, such as the sum of a chunk's gradients). Checks outcomes against these records:
// a sum must be over the contributions of exactly the ranks that the outcome names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/protocol/rounds/exchange.h"

namespace tern::sim {

class Ledger {
 public:
  explicit Ledger(uint32_t workers) : nothing_(workers) {}

  // Records a contribution. A rank may contribute several values to a slot: if rounds can close
  // without some workers, successive processes of a rank may reach the round in different states.
  void RecordContribution(const protocol::Cell& cell, uint64_t round, uint32_t rank, uint64_t word);
  // Returns what is wrong with an outcome, or an empty string. `is_sum`: whether the payload is
  // made of contributions (their sum, their maximum, or figures by rank). If false, the payload has
  // weights, which are not checked.
  std::string CheckOutcome(const protocol::Exchange::Delivery& answer, bool is_sum) const;

 private:
  using Words = std::vector<uint64_t>;
  using WordsOfRanks = std::vector<Words>;  // what each rank contributed to one slot

  const WordsOfRanks nothing_;
  // By slot. Each has an entry for every rank.
  std::map<std::pair<uint64_t, protocol::Cell>, WordsOfRanks> contributed_words_;
};

}  // namespace tern::sim
