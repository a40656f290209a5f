#include "worker/train/sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/text.h"
#include "common/protocol/cells.h"

namespace tern::train {

void Sums::Put(const Answer& answer) {
  const protocol::Bucket& planned = setup_.plan.buckets[answer.cell.bucket];
  const pb::Outcome& outcome = answer.outcome;
  if (outcome.pulled()) counted_clock_ = std::max<uint64_t>(counted_clock_, outcome.round());
  Round& round = rounds_[outcome.pulled() ? kPulled : outcome.round()];
  Bucket& bucket = round.buckets[answer.cell.bucket];
  if (answer.cell.kind == protocol::Kind::kScale) {
    Result<std::vector<float>> scalers =
        protocol::ParseScalers(answer.payload, planned.shared.size());
    if (scalers.ok()) bucket.scalers = std::move(*scalers);
    bucket.scaled = true;  // without any where nobody took part
    return;
  }
  bucket.parts.resize(planned.chunks.size());
  Part& part = bucket.parts[answer.cell.chunk];
  bucket.here += !part.here;
  part = {true, outcome.whole() || outcome.average(), outcome.contributors(), answer.payload};
  if (outcome.has_learning_rate()) round.learning_rate = outcome.learning_rate();
}

bool Sums::Has(uint64_t round, uint32_t bucket) const {
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return false;
  const auto parts = found->second.buckets.find(bucket);
  const protocol::Bucket& planned = setup_.plan.buckets[bucket];
  return parts != found->second.buckets.end() && parts->second.here == planned.chunks.size() &&
         (planned.shared.empty() || parts->second.scaled);
}

bool Sums::Has(uint64_t round) const {
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
    if (!Has(round, b)) return false;
  }
  return true;
}

double Sums::learning_rate(uint64_t round) const {
  const auto found = rounds_.find(round);
  return found == rounds_.end() ? 0 : found->second.learning_rate;
}

void Sums::Drop(uint64_t round) {
  rounds_.erase(rounds_.upper_bound(kPulled), rounds_.upper_bound(round));
}

Status Sums::Decode(uint64_t round, const Use& use) const {
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b)
    TERN_RETURN_IF_ERROR(Decode(round, b, use));
  return Ok();
}

Status Sums::Decode(uint64_t round, uint32_t bucket, const Use& use) const {
  const Bucket& answers = BucketOf(round, bucket);
  for (const protocol::Chunk& chunk : setup_.plan.buckets[bucket].chunks) {
    Status decoded = DecodeChunk(chunk, answers, answers.parts[chunk.index], use);
    if (!decoded.ok()) return decoded.Within(Cat("the answer of round ", round));
  }
  return Ok();
}

Status Sums::Install(uint64_t round, float* w) const {
  const bool changes = setup_.job.exchange().pull() == pb::Exchange::changes;
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      const Bucket& answers = BucketOf(round, chunk.bucket);
      const Part& part = answers.parts[chunk.index];
      const bool adds = changes && !part.whole;
      Status decoded = DecodeChunk(chunk, answers, part,
                                   [&](uint32_t, uint64_t first, std::span<const float> values) {
                                     float* to = w + first;
                                     for (size_t i = 0; i < values.size(); ++i)
                                       to[i] = adds ? to[i] + values[i] : values[i];
                                   });
      if (!decoded.ok()) return decoded.Within(Cat("the weights of exchange ", round));
    }
  }
  return Ok();
}

Status Sums::DecodeChunk(const protocol::Chunk& chunk, const Bucket& bucket, const Part& part,
                         const Use& use) const {
  const protocol::ExchangePlan& plan = setup_.plan;
  const auto wrong_size = [&](size_t expected) {
    return Status(Code::kMismatch, Cat(part.payload.size(), " bytes for bucket ", chunk.bucket,
                                       ", chunk ", chunk.index, ", expected ", expected));
  };
  const size_t whole_bytes = chunk.count * sizeof(float);
  if (part.whole && part.payload.size() != whole_bytes) return wrong_size(whole_bytes);
  const int contributors = plan.central ? 1 : static_cast<int>(part.contributors);
  // Nobody took part: nothing has changed.
  if (contributors == 0 || (plan.central && part.payload.size() == 0))
    return part.payload.size() == 0 ? Ok() : wrong_size(0);
  std::span<const uint8_t> rest = part.payload.span();
  std::array<float, 4096> values;  // stays in the first cache, so memory sees the model once
  for (const codec::Segment& segment : chunk.segments) {
    const codec::Codec& codec = plan.central ? *plan.pull_codec : *plan.codec_of[segment.tensor];
    Result<size_t> size = segment.count * sizeof(float);
    if (!part.whole) size = codec.SumPart(rest, segment, contributors);
    if (!size.ok()) return size.status();
    float scaler = 0;
    const auto& shared = plan.buckets[chunk.bucket].shared;
    const auto place = std::lower_bound(shared.begin(), shared.end(), segment.tensor);
    if (place != shared.end() && *place == segment.tensor && !bucket.scalers.empty())
      scaler = bucket.scalers[static_cast<size_t>(place - shared.begin())];
    const uint64_t base = plan.tensor_begin[segment.tensor] + segment.begin;
    for (uint64_t at = 0; at < segment.count; at += values.size()) {
      const uint64_t n = std::min<uint64_t>(values.size(), segment.count - at);
      if (part.whole) {
        std::memcpy(values.data(), rest.data() + at * sizeof(float), n * sizeof(float));
      } else {
        TERN_RETURN_IF_ERROR(
            codec.Decode(rest.first(*size), segment, contributors, scaler, at, n, values.data()));
      }
      use(segment.tensor, base + at, {values.data(), n});
    }
    rest = rest.subspan(*size);
  }
  return rest.empty() ? Ok() : wrong_size(part.payload.size() - rest.size());
}

}  // namespace tern::train
