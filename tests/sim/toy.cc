#include "tests/sim/toy.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/sim/rng.h"

namespace tern::sim {

using protocol::Cell;
using protocol::CellSpec;
using protocol::Kind;
using protocol::LaneRef;

namespace {

uint64_t Combine(uint64_t a, uint64_t b) { return Mix(a ^ Mix(b)); }

// Counts ranks, and adds (pushes), takes the maximum (scalers) or gathers (figures).
class ToySum : public protocol::CellSum {
 public:
  ToySum(Kind kind, uint32_t workers, const Report* report)
      : kind_(kind), seen_(workers), report_(report) {}

  Status Add(uint32_t rank, const Bytes& payload) override {
    if (payload.size() != sizeof(uint64_t))
      return Status(Code::kMismatch, "not a toy contribution");
    if (seen_[rank]) (*report_)("rank " + std::to_string(rank) + " is counted twice in a slot");
    seen_[rank] = true;
    const uint64_t value = DecodeWord(payload);
    switch (kind_) {
      case Kind::kScale:
        word_ = std::max(word_, value);
        break;
      case Kind::kPush:
        word_ += value;
        break;
      case Kind::kFigures:
        word_ = Combine(word_, 0) + value;
        break;
    }
    if (kind_ == Kind::kFigures) figures_.emplace_back(rank, value);
    return Ok();
  }

  Bytes Close() override {
    if (kind_ != Kind::kFigures) return EncodeWord(word_);
    std::sort(figures_.begin(), figures_.end());
    std::string all;
    for (const auto& [rank, value] : figures_) all.append(EncodeWord(value).view());
    return Bytes::Own(std::move(all));
  }

 private:
  Kind kind_;
  std::vector<bool> seen_;
  const Report* report_;
  uint64_t word_ = 0;
  std::vector<std::pair<uint32_t, uint64_t>> figures_;
};

CellSpec Spec(const Cell& cell, uint32_t workers, const Report* report) {
  CellSpec spec;
  spec.cell = cell;
  spec.open = [=] { return std::make_unique<ToySum>(cell.kind, workers, report); };
  spec.check_outcome = [=](const Bytes& payload, uint32_t contributors) {
    const size_t words = cell.kind == Kind::kFigures ? contributors : 1;
    return payload.size() == words * sizeof(uint64_t) ? Ok()
                                                      : Status(Code::kMismatch, "not a toy outcome");
  };
  spec.waits_for_all = cell.kind == Kind::kFigures;
  return spec;
}

}  // namespace

Bytes EncodeWord(uint64_t value) {
  std::string word(sizeof(value), '\0');
  std::memcpy(word.data(), &value, sizeof(value));
  return Bytes::Own(std::move(word));
}

uint64_t DecodeWord(const Bytes& payload) {
  uint64_t value = 0;
  if (payload.size() == sizeof(value)) std::memcpy(&value, payload.data(), sizeof(value));
  return value;
}

bool Skips(uint32_t rank, uint64_t round) { return Mix(Combine(rank, round)) % 4 == 0; }

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

uint64_t ScaleOf(uint32_t rank, uint64_t round, uint32_t bucket, const State& state) {
  const uint64_t own = Combine(state[bucket * kChunks], state[bucket * kChunks + 1]);
  return Combine(Combine(rank, round), Combine(bucket, own)) >> 1;
}

uint64_t PushOf(uint32_t rank, uint64_t round, uint32_t bucket, uint32_t chunk, const State& state,
                uint64_t scaled) {
  const uint64_t cell = bucket * kChunks + chunk;
  return Combine(Combine(rank, round), Combine(cell ^ scaled, state[cell])) >> 8;
}

uint64_t DigestOfState(const State& state) {
  uint64_t digest = 1;
  for (uint64_t word : state) digest = Combine(digest, word);
  return digest;
}

void Apply(const std::array<uint64_t, kBuckets * kChunks>& sums, State* state) {
  for (size_t i = 0; i < sums.size(); ++i) (*state)[i] = Combine((*state)[i], sums[i]);
}

std::vector<State> FaultFree(uint32_t workers, uint64_t rounds, uint32_t window, bool skips) {
  std::vector<State> states = {{1, 2, 3, 4}};
  for (uint64_t round = 1; round <= rounds; ++round) {
    const State& state = states[round > window ? round - window : 0];
    const auto takes_part = [&](uint32_t rank) { return !skips || !Skips(rank, round); };
    std::array<uint64_t, kBuckets * kChunks> sums{};
    for (uint32_t b = 0; b < kBuckets; ++b) {
      uint64_t scaled = 0;
      for (uint32_t r = 0; r < workers; ++r) {
        if (takes_part(r)) scaled = std::max(scaled, ScaleOf(r, round, b, state));
      }
      for (uint32_t r = 0; r < workers; ++r) {
        for (uint32_t c = 0; takes_part(r) && c < kChunks; ++c) {
          sums[b * kChunks + c] += PushOf(r, round, b, c, state, scaled);
        }
      }
    }
    State next = states.back();
    Apply(sums, &next);
    states.push_back(next);
  }
  return states;
}

LaneRef Layout::LaneOf(const Cell& cell) const {
  const auto shards = static_cast<uint32_t>(data_lanes_.size());
  if (cell.kind == Kind::kFigures) return {0, 0};
  if (cell.kind == Kind::kScale) return {cell.bucket * kChunks % shards, 0};
  const uint32_t index = cell.bucket * kChunks + cell.chunk;
  const uint32_t shard = index % shards;
  return {shard, 1 + index / shards % data_lanes_[shard]};
}

std::vector<CellSpec> Layout::CellsOf(LaneRef lane, uint32_t workers, const Report* report) const {
  std::vector<CellSpec> cells;
  const auto add = [&](const Cell& cell) {
    if (LaneOf(cell) == lane) cells.push_back(Spec(cell, workers, report));
  };
  add({Kind::kFigures, 0, 0});
  for (uint32_t b = 0; b < kBuckets; ++b) {
    add({Kind::kScale, b, 0});
    for (uint32_t c = 0; c < kChunks; ++c) add({Kind::kPush, b, c});
  }
  return cells;
}

}  // namespace tern::sim
