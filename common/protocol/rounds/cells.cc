#include "common/protocol/rounds/cells.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::protocol {

Status CellSum::AddPartial(const std::vector<uint32_t>&, const Bytes&) {
  return Status(Code::kMismatch, "hosts do not add up contributions to this cell");
}

static_assert(std::endian::native == std::endian::little,
              "scalers travel as little-endian float32");

Result<std::vector<float>> ParseScalers(const Bytes& payload, size_t count, float max_scaler) {
  if (payload.size() != count * sizeof(float)) {
    return Status(Code::kMismatch, std::to_string(payload.size()) + " bytes of scalers, expected " +
                                       std::to_string(count * sizeof(float)));
  }
  return ParseLeadingScalers(payload.span(), count, max_scaler);
}

Result<std::vector<float>> ParseLeadingScalers(std::span<const uint8_t> bytes, size_t count,
                                               float max_scaler) {
  if (bytes.size() < count * sizeof(float)) {
    return Status(Code::kMismatch, std::to_string(bytes.size()) + " bytes, expected " +
                                       std::to_string(count) + " scalers before the codes");
  }
  std::vector<float> scalers(count);
  if (count != 0) std::memcpy(scalers.data(), bytes.data(), count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(scalers[i]) || std::signbit(scalers[i])) {
      return Status(Code::kMismatch, "scaler " + std::to_string(i) + " is " +
                                         std::to_string(scalers[i]) +
                                         ", expected a finite value that is not negative");
    }
    if (scalers[i] > max_scaler) {
      return Status(Code::kDiverged,
                    Cat("scaler ", i, " is ", scalers[i], ", more than exchange.max_scaler, ",
                        max_scaler, ": the training has diverged; lower the learning rate"));
    }
  }
  return scalers;
}

Bytes EncodeScalers(const std::vector<float>& scalers) {
  return Bytes::Own(
      std::string(reinterpret_cast<const char*>(scalers.data()), scalers.size() * sizeof(float)));
}

namespace {

void TakeMax(const std::vector<float>& values, std::vector<float>* max) {
  for (size_t i = 0; i < max->size(); ++i) (*max)[i] = std::max((*max)[i], values[i]);
}

// Scaler sharing (TernGrad section 3.3): each scaler (scale factor of a tensor or of a part of one)
// is the maximum over the workers.
class MaxOfScalers : public CellSum {
 public:
  MaxOfScalers(size_t count, float max_scaler)
      : max_scalers_(count, 0.f), max_scaler_(max_scaler) {}

  Status Add(uint32_t, const Bytes& payload) override {
    Result<std::vector<float>> scalers = ParseScalers(payload, max_scalers_.size(), max_scaler_);
    if (!scalers.ok()) return scalers.status();
    TakeMax(*scalers, &max_scalers_);
    return Ok();
  }
  Bytes Close() override { return EncodeScalers(max_scalers_); }

 private:
  std::vector<float> max_scalers_;
  const float max_scaler_;  // a greater scaler is invalid
};

// Every worker gets the figures (metrics) of all workers, and adds them up in the order of the
// ranks, so that all workers compute the same sums.
class GatheredFigures : public CellSum {
 public:
  explicit GatheredFigures(const ExchangePlan& plan)
      : by_rank_(plan.workers), max_bytes_(plan.max_figures_bytes()) {}

  Status Add(uint32_t rank, const Bytes& payload) override {
    pb::Figures figures;
    if (payload.size() > max_bytes_ ||
        !figures.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
      return Status(Code::kMismatch,
                    "figures of " + std::to_string(payload.size()) + " bytes that do not parse");
    }
    by_rank_[rank] = std::string(payload.view());
    return Ok();
  }
  Bytes Close() override {
    pb::FiguresOfAll figures_of_all;
    for (std::string& figures : by_rank_) figures_of_all.add_by_rank(std::move(figures));
    return Bytes::Own(figures_of_all.SerializeAsString());
  }

 private:
  std::vector<std::string> by_rank_;
  const size_t max_bytes_;  // upper bound of the bytes of one worker's figures
};

// The state that the codecs of a chunk's segments (ranges of single tensors) keep from the sum of
// one round to the next.
using SumMemories = std::vector<std::unique_ptr<codec::Memory>>;

// The server's sum (line 7 of Algorithm 1 in the TernGrad paper) of one chunk. Adds the codes
// without decoding them if the codec can do that.
class ChunkSum : public CellSum {
 public:
  ChunkSum(const ExchangePlan& plan, const Chunk& chunk, uint64_t round,
           const SumMemories& memories)
      : chunk_(chunk), max_scaler_(plan.max_scaler), max_scalers_(chunk.num_scalers, 0.f) {
    codec::RecodeInputs recode_inputs;
    recode_inputs.noise.seed = plan.seed;
    recode_inputs.noise.stream = kernels::NoiseStream::kServerCodes;
    recode_inputs.noise.round = round;
    for (size_t i = 0; i < chunk.segments.size(); ++i) {
      recode_inputs.memory = memories[i].get();
      sums_.push_back(plan.codec_of[chunk.segments[i].tensor]->NewAccumulator(
          chunk.segments[i], static_cast<int>(plan.workers), recode_inputs));
    }
  }

  Status Add(uint32_t rank, const Bytes& payload) override {
    return AddEach(payload, [rank](codec::Accumulator& sum, const Bytes& codes) {
      return sum.AddRetained(static_cast<int>(rank), codes);
    });
  }
  Status AddPartial(const std::vector<uint32_t>& ranks, const Bytes& payload) override {
    const std::vector<int> signed_ranks(ranks.begin(), ranks.end());
    return AddEach(payload, [&signed_ranks](codec::Accumulator& sum, const Bytes& codes) {
      return sum.AddPartial(signed_ranks, codes.span());
    });
  }
  Bytes Close() override { return CloseEach(&codec::Accumulator::EncodeSum); }
  Bytes ClosePartial() override { return CloseEach(&codec::Accumulator::EncodePartial); }

 private:
  // Reads the scalers, and has each segment's sum add its part of the codes with add(sum, bytes),
  // which returns how many of the bytes it used.
  template <typename AddCodes>
  Status AddEach(const Bytes& payload, const AddCodes& add) {
    std::span<const uint8_t> unread_bytes = payload.span();
    const Result<std::vector<float>> scalers =
        ParseLeadingScalers(unread_bytes, max_scalers_.size(), max_scaler_);
    if (!scalers.ok()) return scalers.status();
    unread_bytes = unread_bytes.subspan(max_scalers_.size() * sizeof(float));
    for (size_t i = 0; i < sums_.size(); ++i) {
      const Bytes codes = payload.Slice(payload.size() - unread_bytes.size(), unread_bytes.size());
      const Result<size_t> used_bytes = add(*sums_[i], codes);
      if (!used_bytes.ok())
        return used_bytes.status().Within("tensor " + std::to_string(chunk_.segments[i].tensor));
      unread_bytes = unread_bytes.subspan(*used_bytes);
    }
    if (!unread_bytes.empty())
      return Status(Code::kMismatch,
                    std::to_string(unread_bytes.size()) + " bytes more than the chunk has");
    TakeMax(*scalers, &max_scalers_);
    return Ok();
  }
  Bytes CloseEach(void (codec::Accumulator::*encode)(std::vector<uint8_t>*)) {
    std::vector<uint8_t> out;
    out.reserve(chunk_.max_sum_bytes);
    const auto* scaler_bytes = reinterpret_cast<const uint8_t*>(max_scalers_.data());
    out.insert(out.end(), scaler_bytes, scaler_bytes + max_scalers_.size() * sizeof(float));
    for (auto& sum : sums_) (sum.get()->*encode)(&out);
    return Bytes::Own(std::move(out));
  }

  const Chunk& chunk_;
  const float max_scaler_;          // a greater scaler is invalid
  std::vector<float> max_scalers_;  // of each scaler that pushes carry: the maximum over the pushes
  std::vector<std::unique_ptr<codec::Accumulator>> sums_;
};

Status CheckFigures(const Bytes& payload, uint32_t workers, size_t max_worker_bytes) {
  pb::FiguresOfAll figures_of_all;
  if (payload.size() > workers * (max_worker_bytes + 8) ||
      !figures_of_all.ParseFromArray(payload.data(), static_cast<int>(payload.size())) ||
      figures_of_all.by_rank_size() != static_cast<int>(workers)) {
    return Status(Code::kMismatch, "not the figures of " + std::to_string(workers) + " workers");
  }
  return Ok();
}

}  // namespace

CellSpec MakeScaleCell(uint32_t bucket, size_t num_scalers, float max_scaler) {
  CellSpec spec;
  spec.cell = {Kind::kScale, bucket, 0};
  spec.open = [num_scalers, max_scaler](uint64_t) {
    return std::make_unique<MaxOfScalers>(num_scalers, max_scaler);
  };
  spec.check_outcome = [num_scalers, max_scaler](const Bytes& payload, uint32_t) {
    return ParseScalers(payload, num_scalers, max_scaler).status();
  };
  return spec;
}

// Whether all workers with figures in `answer`, a FiguresOfAll, have the same weights. The hashes
// in round r are of the weights after round r - 1.
Status CheckHashesAgree(const Bytes& answer, uint64_t round) {
  pb::FiguresOfAll figures_of_all;
  if (!figures_of_all.ParseFromArray(answer.data(), static_cast<int>(answer.size())))
    return Status(Code::kInternal, "the figures of all workers do not parse");
  std::optional<std::pair<int, uint64_t>> first;  // the first rank with figures, and its hash
  for (int rank = 0; rank < figures_of_all.by_rank_size(); ++rank) {
    pb::Figures figures;
    if (figures_of_all.by_rank(rank).empty() ||
        !figures.ParseFromString(figures_of_all.by_rank(rank)))
      continue;
    if (!first.has_value()) first = {rank, figures.parameters_hash()};
    if (figures.parameters_hash() == first->second) continue;
    return Status(Code::kMismatch, Cat("the replicas differ after round ", round - 1, ": worker ",
                                       first->first, " has hash ", Hex(first->second), ", worker ",
                                       rank, " has ", Hex(figures.parameters_hash())));
  }
  return Ok();
}

CellSpec MakeFiguresCell(const ExchangePlan& plan, uint32_t which) {
  CellSpec spec;
  spec.cell = {Kind::kFigures, 0, which};
  spec.open = [&plan](uint64_t) { return std::make_unique<GatheredFigures>(plan); };
  spec.check_outcome = [workers = plan.workers, max_bytes = plan.max_figures_bytes()](
                           const Bytes& payload, uint32_t) {
    return CheckFigures(payload, workers, max_bytes);
  };
  spec.waits_for_all = true;
  // The hash of a lost worker's weights says nothing about the other workers, if rounds may close
  // without some of them.
  spec.is_for_members_only = which == kCompare;
  // In a job without rounds, workers may hold different weights.
  if (which == kCompare && plan.has_rounds) spec.check_agreement = CheckHashesAgree;
  return spec;
}

void AddStateOfMemories(const SumMemories& memories, SavedState* state) {
  for (size_t i = 0; i < memories.size(); ++i) {
    if (memories[i] == nullptr) continue;
    SavedState memory_state;
    memories[i]->AddState(&memory_state);
    const std::string prefix = std::to_string(i) + ".";
    for (const SavedState::Array& array : memory_state.arrays)
      state->arrays.push_back({prefix + array.name, array.values});
    for (const SavedState::Number& number : memory_state.numbers)
      state->numbers.push_back({prefix + number.name, number.value});
  }
}

CellSpec MakePushCell(const ExchangePlan& plan, const Chunk& chunk) {
  CellSpec spec;
  spec.cell = {Kind::kPush, chunk.bucket, chunk.index};
  auto memories = std::make_shared<SumMemories>();
  for (const codec::Segment& segment : chunk.segments)
    memories->push_back(plan.codec_of[segment.tensor]->NewSumMemory(segment));
  spec.open = [&plan, &chunk, memories](uint64_t round) {
    return std::make_unique<ChunkSum>(plan, chunk, round, *memories);
  };
  spec.check_outcome = [&plan, &chunk](const Bytes& payload, uint32_t contributors) {
    return CheckSums(plan, chunk, payload, contributors);
  };
  spec.adds_partial_sums = plan.sums_on_hosts;
  if (std::any_of(memories->begin(), memories->end(),
                  [](const auto& memory) { return memory != nullptr; }))
    spec.append_state = [memories](SavedState* state) { AddStateOfMemories(*memories, state); };
  return spec;
}

Status CheckSums(const ExchangePlan& plan, const Chunk& chunk, const Bytes& payload,
                 uint32_t contributors) {
  std::span<const uint8_t> unread_bytes = payload.span();
  const Result<std::vector<float>> scalers =
      ParseLeadingScalers(unread_bytes, chunk.num_scalers, plan.max_scaler);
  if (!scalers.ok()) return scalers.status();
  unread_bytes = unread_bytes.subspan(chunk.num_scalers * sizeof(float));
  for (const codec::Segment& segment : chunk.segments) {
    const Result<size_t> sum_bytes =
        plan.is_central ? plan.pull_codec->DecodeSingleCodeInBlocks(
                              unread_bytes, segment, [](uint64_t, std::span<const float>) {})
                        : plan.codec_of[segment.tensor]->SumSize(unread_bytes, segment,
                                                                 static_cast<int>(contributors));
    if (!sum_bytes.ok())
      return sum_bytes.status().Within("tensor " + std::to_string(segment.tensor));
    unread_bytes = unread_bytes.subspan(*sum_bytes);
  }
  if (unread_bytes.empty()) return Ok();
  return Status(Code::kMismatch,
                std::to_string(unread_bytes.size()) + " bytes more than the chunk has");
}

std::vector<CellSpec> MakeCellsOfLane(const ExchangePlan& plan, uint32_t shard, uint32_t lane) {
  std::vector<CellSpec> cells;
  for (uint32_t which : {kCompare, kEvaluate, kWriteFirst, kWriteElsewhere}) {
    if (lane == 0 && shard == 0) cells.push_back(MakeFiguresCell(plan, which));
  }
  for (uint32_t b = 0; b < plan.buckets.size(); ++b) {
    const Bucket& bucket = plan.buckets[b];
    if (lane == 0 && bucket.home_shard == shard && !bucket.shared_parts.empty())
      cells.push_back(MakeScaleCell(b, bucket.shared_parts.size(), plan.max_scaler));
    for (const Chunk& chunk : bucket.chunks) {
      if (chunk.shard == shard && chunk.lane == lane) cells.push_back(MakePushCell(plan, chunk));
    }
  }
  return cells;
}

std::vector<bool> ShardsThatKeepState(const ExchangePlan& plan) {
  std::vector<bool> shard_keeps_state(plan.data_lanes.size());
  for (const Bucket& bucket : plan.buckets) {
    for (const Chunk& chunk : bucket.chunks) {
      bool keeps_state = plan.is_central;
      for (const codec::Segment& segment : chunk.segments)
        keeps_state |= plan.codec_of[segment.tensor]->NewSumMemory(segment) != nullptr;
      if (keeps_state) shard_keeps_state[chunk.shard] = true;
    }
  }
  return shard_keeps_state;
}

LaneRef LaneOf(const ExchangePlan& plan, const Cell& cell) {
  switch (cell.kind) {
    case Kind::kFigures:
      return {0, 0};
    case Kind::kScale:
      return {plan.buckets[cell.bucket].home_shard, 0};
    case Kind::kPush:
      break;
  }
  const Chunk& chunk = plan.chunk(cell.bucket, cell.chunk);
  return {chunk.shard, chunk.lane};
}

bool IsCellOfLane(const ExchangePlan& plan, const Cell& cell, LaneRef lane) {
  if (cell.kind == Kind::kFigures)
    return cell.bucket == 0 && cell.chunk <= kWriteElsewhere && lane == LaneRef{};
  if (cell.bucket >= plan.buckets.size()) return false;
  const Bucket& bucket = plan.buckets[cell.bucket];
  if (cell.kind == Kind::kScale && (cell.chunk != 0 || bucket.shared_parts.empty())) return false;
  if (cell.kind == Kind::kPush && cell.chunk >= bucket.chunks.size()) return false;
  return LaneOf(plan, cell) == lane;
}

}  // namespace tern::protocol
