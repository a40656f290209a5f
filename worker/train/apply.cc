#include "worker/train/apply.h"

#include <algorithm>
#include <array>

#include "common/protocol/cells.h"
#include "worker/train/coder.h"

namespace tern::train {

Apply::Apply(const setup::Setup& setup, Replica& replica)
    : setup_(setup), replica_(replica), scalers_(setup.table.parameters.size()) {
  for (uint32_t t = 0; t < setup.table.parameters.size(); ++t)
    decay_.push_back(DecayOf(setup, t, pb::WeightDecay::local));
  for (const protocol::Bucket& bucket : setup.plan.buckets)
    sums_.emplace_back(bucket.chunks.size());
}

void Apply::SetScalers(uint32_t bucket, const Bytes& payload) {
  const std::vector<uint32_t>& shared = setup_.plan.buckets[bucket].shared;
  const Result<std::vector<float>> scalers = protocol::ParseScalers(payload, shared.size());
  for (size_t i = 0; scalers.ok() && i < shared.size(); ++i) scalers_[shared[i]] = (*scalers)[i];
}

Status Apply::Run(uint64_t round, float learning_rate) {
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      Bytes& sum = sums_[chunk.bucket][chunk.index];
      if (sum.size() != chunk.sum_bytes) {
        return Status(Code::kMismatch, "a sum of " + std::to_string(sum.size()) +
                                           " bytes at round " + std::to_string(round) +
                                           ", expected " + std::to_string(chunk.sum_bytes));
      }
      std::span<const uint8_t> rest = sum.span();
      for (const codec::Segment& segment : chunk.segments) {
        const size_t size = setup_.plan.codec_of[segment.tensor]->SumSize(
            segment.count, static_cast<int>(setup_.plan.workers));
        TERN_RETURN_IF_ERROR(RunSegment(segment, rest.first(size), round, learning_rate));
        rest = rest.subspan(size);
      }
      sum = Bytes();
    }
  }
  return Ok();
}

Status Apply::RunSegment(const codec::Segment& segment, std::span<const uint8_t> sum,
                         uint64_t round, float learning_rate) {
  std::array<float, 4096>
      mean;  // a block stays in the first cache, so memory sees the parameters once
  const uint32_t t = segment.tensor;
  const uint64_t base = setup_.plan.tensor_begin[t] + segment.begin;
  for (uint64_t at = 0; at < segment.count; at += mean.size()) {
    const uint64_t n = std::min<uint64_t>(mean.size(), segment.count - at);
    Status decoded = setup_.plan.codec_of[t]->Decode(
        sum, segment.count, static_cast<int>(setup_.plan.workers), scalers_[t], at, n, mean.data());
    if (!decoded.ok())
      return decoded.Within("the sum of " + setup_.table.parameters[t].name + ", round " +
                            std::to_string(round));
    replica_.Update(mean.data(), base + at, n, learning_rate, decay_[t], round);
  }
  return Ok();
}

}  // namespace tern::train
