#include "tests/sim/toy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "tests/sim/rng.h"

namespace tern::sim {

using protocol::Cell;
using protocol::CellSpec;
using protocol::Kind;
using protocol::LaneRef;

namespace {

using Floats = std::array<float, 2>;

Floats MeanOf(const std::vector<uint64_t>& words) {
  Floats mean{};
  for (const uint64_t word : words) {
    const auto floats = std::bit_cast<Floats>(word);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += floats[i];
  }
  for (float& value : mean) value /= static_cast<float>(words.size());
  return mean;
}

// Applies convert(i, x) to each float x of `word`, where i is its index (0 or 1). Returns the new
// word.
template <typename Convert>
uint64_t MapFloats(uint64_t word, const Convert& convert) {
  auto floats = std::bit_cast<Floats>(word);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = convert(i, floats[i]);
  return std::bit_cast<uint64_t>(floats);
}

// A chunk in a job whose servers hold the weights: the server's word and the workers' copy of it.
// If the server sends changes instead of weights, rounding may make the two words differ.
struct ServerChunk {
  uint64_t server_word = 0, worker_word = 0;
};

// Applies the pushes of a round to the server's weights and to the workers' copy.
void CloseRound(const Schedule& schedule, uint64_t round, const std::vector<uint64_t>& pushes,
                ServerChunk* chunk) {
  chunk->server_word = schedule.algorithm == "easgd"
                           ? ApplyElastic(chunk->server_word, pushes)
                           : ApplySgd(chunk->server_word, pushes, LearningRate(schedule, round));
  chunk->worker_word =
      schedule.sends_changes
          ? AddFloats(chunk->worker_word, SubtractFloats(chunk->worker_word, chunk->server_word))
          : chunk->server_word;
}

// The reduction of one cell in one round: adds up words (pushes), takes their maximum (scalers) or
// collects them by rank (figures). Reports a rank that contributes twice.
class ToySum : public protocol::CellSum {
 public:
  ToySum(Kind kind, uint32_t workers, const Report* report)
      : kind_(kind), has_contributed_(workers), report_(report) {}

  Status Add(uint32_t rank, const Bytes& payload) override {
    if (payload.size() != sizeof(uint64_t))
      return Status(Code::kMismatch, "not a toy contribution");
    if (has_contributed_[rank])
      (*report_)("rank " + std::to_string(rank) + " is counted twice in a slot");
    has_contributed_[rank] = true;
    const uint64_t word = DecodeWord(payload);
    switch (kind_) {
      case Kind::kScale:
        word_ = std::max(word_, word);
        break;
      case Kind::kPush:
        word_ += word;
        break;
      case Kind::kFigures:
        word_ = Combine(word_, 0) + word;
        break;
    }
    if (kind_ == Kind::kFigures) figures_.emplace_back(rank, word);
    return Ok();
  }

  Status AddPartial(const std::vector<uint32_t>& ranks, const Bytes& payload) override {
    for (const uint32_t rank : ranks) {
      if (has_contributed_[rank])
        (*report_)("rank " + std::to_string(rank) + " is counted twice in a slot");
      has_contributed_[rank] = true;
    }
    if (payload.size() != sizeof(uint64_t)) return Status(Code::kMismatch, "not a toy sum");
    word_ += DecodeWord(payload);
    return Ok();
  }

  Bytes Close() override {
    if (kind_ != Kind::kFigures) return EncodeWord(word_);
    std::sort(figures_.begin(), figures_.end());
    std::string words;
    for (const auto& [rank, word] : figures_) words.append(EncodeWord(word).view());
    return Bytes::Own(std::move(words));
  }

 private:
  Kind kind_;
  std::vector<bool> has_contributed_;
  const Report* report_;
  uint64_t word_ = 0;
  std::vector<std::pair<uint32_t, uint64_t>> figures_;
};

CellSpec MakeCellSpec(const Cell& cell, const Schedule& schedule, const Report* report) {
  CellSpec spec;
  spec.cell = cell;
  spec.open = [=, workers = schedule.workers](uint64_t) {
    return std::make_unique<ToySum>(cell.kind, workers, report);
  };
  spec.check_outcome = [=](const Bytes& payload, uint32_t contributors) {
    const size_t word_count = cell.kind == Kind::kFigures ? contributors : 1;
    return payload.size() == word_count * sizeof(uint64_t)
               ? Ok()
               : Status(Code::kMismatch, "not a toy outcome");
  };
  spec.adds_partial_sums = cell.kind == Kind::kPush && schedule.workers_a_host != 0;
  if (cell.kind != Kind::kFigures) return spec;
  spec.waits_for_all = spec.is_for_members_only = true;
  if (!schedule.has_rounds()) return spec;  // workers may hold different weights
  const bool may_differ = schedule.HasFaultOfKind(Fault::Kind::kFlipBit);
  spec.check_agreement = [=](const Bytes& answer, uint64_t round) {
    const std::vector<uint64_t> digests = DecodeWords(answer);
    const bool agree = std::all_of(digests.begin(), digests.end(),
                                   [&](uint64_t digest) { return digest == digests.front(); });
    if (!agree && !may_differ) (*report)("the replicas differ, and no bit has flipped");
    return agree ? Ok()
                 : Status(Code::kMismatch,
                          "the replicas differ after round " + std::to_string(round - 1));
  };
  return spec;
}

}  // namespace

uint64_t Combine(uint64_t a, uint64_t b) { return Mix(a ^ Mix(b)); }

Bytes EncodeWord(uint64_t value) { return EncodeWords({value}); }

uint64_t DecodeWord(const Bytes& payload) {
  const std::vector<uint64_t> words = DecodeWords(payload);
  return words.empty() ? 0 : words[0];
}

Bytes EncodeWords(const std::vector<uint64_t>& words) {
  std::string bytes(words.size() * sizeof(uint64_t), '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return Bytes::Own(std::move(bytes));
}

std::vector<uint64_t> DecodeWords(const Bytes& payload) {
  std::vector<uint64_t> words(payload.size() / sizeof(uint64_t));
  if (!words.empty()) std::memcpy(words.data(), payload.data(), words.size() * sizeof(uint64_t));
  return words;
}

uint64_t NextRound(const Schedule& schedule, uint64_t applied, uint64_t last) {
  if (!schedule.exchanges_parts) return applied + 1;
  const bool must_exchange_all = applied % 4 == 0 || applied >= last;
  if (applied != 0 && applied % 2 == 0 && must_exchange_all) return applied + 1;
  return applied / 2 * 2 + 2;
}

bool IsExchanged(const Schedule& schedule, uint64_t round, uint32_t bucket) {
  return !schedule.exchanges_parts || round % 2 == 1 || (round / 2 - 1) % kNumBuckets == bucket;
}

bool SkipsRound(uint32_t rank, uint64_t round) { return Mix(Combine(rank, round)) % 4 == 0; }

Bytes EncodeReplica(const Replica& replica) {
  std::string bytes(sizeof(replica), '\0');
  std::memcpy(bytes.data(), &replica, sizeof(replica));
  return Bytes::Own(std::move(bytes));
}

Replica DecodeReplica(const Bytes& bytes) {
  Replica replica{};
  if (bytes.size() == sizeof(replica)) std::memcpy(&replica, bytes.data(), sizeof(replica));
  return replica;
}

uint64_t ScalerOf(uint32_t rank, uint64_t round, uint32_t bucket, const State& state) {
  const uint64_t state_hash = Combine(state[bucket * kNumChunks], state[bucket * kNumChunks + 1]);
  return Combine(Combine(rank, round), Combine(bucket, state_hash)) >> 1;
}

uint64_t PushOf(const Schedule& schedule, uint32_t rank, uint64_t round, uint32_t bucket,
                uint32_t chunk, const State& state, uint64_t largest_scaler) {
  const uint64_t cell_index = bucket * kNumChunks + chunk;
  const uint64_t word =
      Combine(Combine(rank, round), Combine(cell_index ^ largest_scaler, state[cell_index])) >> 8;
  return schedule.is_central ? FloatsFromBits(word) : word;
}

double RateAt(uint64_t step) {
  return kFirstRate * std::pow(kRateFactor, static_cast<double>(step / kRateEvery));
}

double LearningRate(const Schedule& schedule, uint64_t round) {
  return schedule.is_central ? RateAt(round - 1) : 1.0 / static_cast<double>(round);
}

uint64_t FloatsFromBits(uint64_t bits) {
  Floats floats;
  for (float& value : floats) {
    value = static_cast<float>(static_cast<int64_t>(bits & 0xfff) - 0x800);
    bits >>= 12;
  }
  return std::bit_cast<uint64_t>(floats);
}

uint64_t ApplySgd(uint64_t word, const std::vector<uint64_t>& gradients, double rate) {
  const auto rate_as_float = static_cast<float>(rate);
  const Floats mean = MeanOf(gradients);
  return MapFloats(word, [&](size_t i, float w) { return w - rate_as_float * mean[i]; });
}

uint64_t ApplyElastic(uint64_t word, const std::vector<uint64_t>& pushed) {
  const float alpha = static_cast<float>(kElastic) * static_cast<float>(pushed.size());
  const Floats mean = MeanOf(pushed);
  return MapFloats(word, [&](size_t i, float w) { return w + alpha * (mean[i] - w); });
}

uint64_t AddFloats(uint64_t word, uint64_t change) {
  const auto change_floats = std::bit_cast<Floats>(change);
  return MapFloats(word, [&](size_t i, float w) { return w + change_floats[i]; });
}

uint64_t SubtractFloats(uint64_t from, uint64_t to) {
  const auto from_floats = std::bit_cast<Floats>(from);
  return MapFloats(to, [&](size_t i, float w) { return w - from_floats[i]; });
}

uint64_t DigestOfState(const State& state) {
  uint64_t digest = 1;
  for (uint64_t word : state) digest = Combine(digest, word);
  return digest;
}

std::vector<State> FaultFreeStates(const Schedule& schedule) {
  std::vector<State> states(schedule.rounds + 1, InitialState(schedule));
  std::array<ServerChunk, kNumBuckets * kNumChunks> server_chunks;
  // If steps exchange only parts of the model, one more round after the last step exchanges all
  // buckets.
  const uint64_t round_of_last_step =
      schedule.exchanges_parts ? schedule.rounds - 1 : schedule.rounds;
  uint64_t applied = 0;
  while (applied < schedule.rounds) {
    const uint64_t round = NextRound(schedule, applied, round_of_last_step);
    const State& state =
        schedule.gradient_uses_state()
            ? states[applied + 1 < schedule.window ? 0 : applied + 1 - schedule.window]
            : states[0];
    State next_state = states[applied];
    const auto contributes = [&](uint32_t rank) {
      return !schedule.has_skips || !SkipsRound(rank, round);
    };
    for (uint32_t b = 0; b < kNumBuckets; ++b) {
      if (!IsExchanged(schedule, round, b)) continue;
      uint64_t largest_scaler = 0, contributors = 0;
      for (uint32_t r = 0; r < schedule.workers; ++r) {
        if (contributes(r)) largest_scaler = std::max(largest_scaler, ScalerOf(r, round, b, state));
        contributors += contributes(r);
      }
      for (uint32_t c = 0; contributors != 0 && c < kNumChunks; ++c) {
        std::vector<uint64_t> pushes;
        for (uint32_t r = 0; r < schedule.workers; ++r) {
          if (contributes(r))
            pushes.push_back(PushOf(schedule, r, round, b, c, state, largest_scaler));
        }
        uint64_t& word = next_state[b * kNumChunks + c];
        if (!schedule.is_central) {
          word = Combine(word, std::accumulate(pushes.begin(), pushes.end(), 0ul));
          continue;
        }
        CloseRound(schedule, round, pushes, &server_chunks[b * kNumChunks + c]);
        word = server_chunks[b * kNumChunks + c].worker_word;
      }
    }
    applied = round;
    states[applied] = next_state;
  }
  return states;
}

LaneRef Layout::LaneOf(const Cell& cell) const {
  const auto shards = schedule_.shards();
  if (cell.kind == Kind::kFigures) return {0, 0};
  if (cell.kind == Kind::kScale) return {cell.bucket * kNumChunks % shards, 0};
  const uint32_t cell_index = cell.bucket * kNumChunks + cell.chunk;
  const uint32_t shard = cell_index % shards;
  return {shard, 1 + cell_index / shards % schedule_.data_lanes[shard]};
}

std::vector<Cell> Layout::CellsAt(LaneRef lane) const {
  std::vector<Cell> cells;
  const auto add_if_on_lane = [&](const Cell& cell) {
    if (LaneOf(cell) == lane) cells.push_back(cell);
  };
  if (schedule_.has_rounds()) add_if_on_lane({Kind::kFigures, 0, 0});
  for (uint32_t which = 1; !schedule_.has_rounds() && which <= 2; ++which)
    add_if_on_lane({Kind::kFigures, 0, which});
  for (uint32_t b = 0; b < kNumBuckets; ++b) {
    if (schedule_.has_rounds()) add_if_on_lane({Kind::kScale, b, 0});
    for (uint32_t c = 0; c < kNumChunks; ++c) add_if_on_lane({Kind::kPush, b, c});
  }
  return cells;
}

std::vector<CellSpec> Layout::RoundCells(LaneRef lane, const Report* report) const {
  std::vector<CellSpec> specs;
  for (const Cell& cell : CellsAt(lane)) specs.push_back(MakeCellSpec(cell, schedule_, report));
  return specs;
}

}  // namespace tern::sim
