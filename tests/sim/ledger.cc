#include "tests/sim/ledger.h"

#include <algorithm>

#include "tests/sim/toy.h"

namespace tern::sim {

namespace {

using protocol::Kind;

// Whether one word of each list given[from], given[from + 1], ... can be chosen so that, together
// with `so_far`, their sum (or, for scalers, their maximum) is `sum`. There is one list per rank.
bool CanAddUpTo(Kind kind, const std::vector<const std::vector<uint64_t>*>& given, size_t from,
                uint64_t so_far, uint64_t sum) {
  if (from == given.size()) return so_far == sum;
  return std::any_of(given[from]->begin(), given[from]->end(), [&](uint64_t word) {
    const uint64_t with = kind == Kind::kScale ? std::max(so_far, word) : so_far + word;
    return CanAddUpTo(kind, given, from + 1, with, sum);
  });
}

}  // namespace

void Ledger::RecordContribution(const protocol::Cell& cell, uint64_t round, uint32_t rank,
                                uint64_t word) {
  Words& words = given_[{round, cell, rank}];
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

const Ledger::Words* Ledger::ContributedBy(const protocol::Cell& cell, uint64_t round,
                                           uint32_t rank) const {
  const auto found = given_.find({round, cell, rank});
  return found == given_.end() ? nullptr : &found->second;
}

std::string Ledger::Check(const protocol::Exchange::Delivery& answer, bool sum) const {
  const pb::Outcome::OfRound& outcome = answer.outcome.of_round();
  const std::string& who = outcome.contributor_bits();
  std::vector<const Words*> given;
  for (uint32_t rank = 0; rank < workers_; ++rank) {
    if (who.size() != 1 || (who[0] >> rank & 1) == 0) continue;
    given.push_back(ContributedBy(answer.cell, outcome.round(), rank));
    if (given.back() == nullptr)
      return "rank " + std::to_string(rank) + " is in it, but gave nothing";
  }
  if (given.size() != outcome.contributors()) return "another number of contributors";
  if (given.empty()) return answer.payload.empty() ? "" : "a sum over nobody";
  if (!sum) return "";
  if (answer.cell.kind != Kind::kFigures) {
    const bool good = CanAddUpTo(answer.cell.kind, given, 0, 0, DecodeWord(answer.payload));
    return good ? "" : "not what its contributors gave";
  }
  if (answer.payload.size() != given.size() * sizeof(uint64_t)) return "figures of others";
  for (size_t i = 0; i < given.size(); ++i) {
    const uint64_t word = DecodeWord(answer.payload.Slice(i * sizeof(uint64_t), sizeof(uint64_t)));
    if (std::find(given[i]->begin(), given[i]->end(), word) == given[i]->end())
      return "figures that nobody gave";
  }
  return "";
}

}  // namespace tern::sim
