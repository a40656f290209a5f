#include "tests/sim/ledger.h"

#include <algorithm>

#include "tests/sim/toy.h"

namespace tern::sim {

namespace {

using protocol::Kind;

// words_of_ranks has a list of words for each rank. Returns whether one word of each list, from
// list `first` on, can be chosen such that the sum of these words and `so_far` (for scalers: the
// maximum) is `expected_sum`.
bool CanAddUpTo(Kind kind, const std::vector<const std::vector<uint64_t>*>& words_of_ranks,
                size_t first, uint64_t so_far, uint64_t expected_sum) {
  if (first == words_of_ranks.size()) return so_far == expected_sum;
  return std::any_of(
      words_of_ranks[first]->begin(), words_of_ranks[first]->end(), [&](uint64_t word) {
        const uint64_t combined = kind == Kind::kScale ? std::max(so_far, word) : so_far + word;
        return CanAddUpTo(kind, words_of_ranks, first + 1, combined, expected_sum);
      });
}

}  // namespace

void Ledger::RecordContribution(const protocol::Cell& cell, uint64_t round, uint32_t rank,
                                uint64_t word) {
  Words& words = contributed_words_.try_emplace({round, cell}, nothing_).first->second[rank];
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

std::string Ledger::CheckOutcome(const protocol::Exchange::Delivery& answer, bool is_sum) const {
  const pb::Outcome::OfRound& outcome = answer.outcome.of_round();
  const std::string& contributor_bits = outcome.contributor_bits();
  const auto slot = contributed_words_.find({outcome.round(), answer.cell});
  const WordsOfRanks& words_of_ranks = slot == contributed_words_.end() ? nothing_ : slot->second;
  std::vector<const Words*> words_of_contributors;
  for (uint32_t rank = 0; rank < words_of_ranks.size(); ++rank) {
    if (!protocol::HasContributed(contributor_bits, rank)) continue;
    if (words_of_ranks[rank].empty())
      return "rank " + std::to_string(rank) + " is in it, but gave nothing";
    words_of_contributors.push_back(&words_of_ranks[rank]);
  }
  if (words_of_contributors.size() != outcome.contributors())
    return "another number of contributors";
  if (words_of_contributors.empty()) return answer.payload.empty() ? "" : "a sum over nobody";
  if (!is_sum) return "";
  if (answer.cell.kind != Kind::kFigures) {
    const bool can_add_up =
        CanAddUpTo(answer.cell.kind, words_of_contributors, 0, 0, DecodeWord(answer.payload));
    return can_add_up ? "" : "not what its contributors gave";
  }
  if (answer.payload.size() != words_of_contributors.size() * sizeof(uint64_t))
    return "figures of others";
  for (size_t i = 0; i < words_of_contributors.size(); ++i) {
    const uint64_t word = DecodeWord(answer.payload.Slice(i * sizeof(uint64_t), sizeof(uint64_t)));
    if (std::find(words_of_contributors[i]->begin(), words_of_contributors[i]->end(), word) ==
        words_of_contributors[i]->end())
      return "figures that nobody gave";
  }
  return "";
}

}  // namespace tern::sim
