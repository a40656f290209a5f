#include "client/exchange/sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/forms.h"

namespace tern::client {
namespace {

// Decodes floats in pieces that fit a cache.
void UseFloats(std::span<const uint8_t> bytes, const codec::Codec::BlockVisitor& use) {
  std::array<float, 4096> values;
  const uint64_t count = bytes.size() / sizeof(float);
  for (uint64_t at = 0; at < count; at += values.size()) {
    const uint64_t n = std::min<uint64_t>(values.size(), count - at);
    std::memcpy(values.data(), bytes.data() + at * sizeof(float), n * sizeof(float));
    use(at, std::span(values).first(n));
  }
}

}  // namespace

void Sums::Put(const Answer& answer) {
  const protocol::Bucket& planned = setup_.plan.buckets[answer.cell.bucket];
  const pb::Outcome& outcome = answer.outcome;
  counted_clock_ = std::max<uint64_t>(counted_clock_, outcome.pulled().clock());
  Round& round = rounds_[outcome.has_pulled() ? kPulled : protocol::ExchangeOf(outcome)];
  Bucket& bucket = round.buckets[answer.cell.bucket];
  if (answer.cell.kind == protocol::Kind::kScale) {
    Result<std::vector<float>> scalers =
        protocol::ParseScalers(answer.payload, planned.shared.size());
    if (scalers.ok()) bucket.scalers = std::move(*scalers);
    bucket.scaled = true;  // An answer without scalers counts, too: no worker took part.
    return;
  }
  bucket.parts.resize(planned.chunks.size());
  Part& part = bucket.parts[answer.cell.chunk];
  bucket.num_arrived += !part.has_arrived;
  part = {true, protocol::IsWhole(outcome), outcome.of_round().contributors(), answer.payload};
  if (outcome.has_learning_rate()) round.learning_rate = outcome.learning_rate();
  if (planned.chunks[answer.cell.chunk].scalers != 0) StoreMaxScalers(answer);
}

void Sums::StoreMaxScalers(const Answer& answer) {
  const uint64_t round = answer.outcome.of_round().round();
  const uint32_t b = answer.cell.bucket;
  const size_t count = setup_.plan.chunk(b, answer.cell.chunk).scalers;
  std::vector<float>& largest = largest_[round][b];
  const uint32_t back = setup_.plan.scalers_from;
  // If no worker took part, later rounds use the scalers that this round would have used.
  if (answer.outcome.of_round().contributors() == 0) {
    const auto before = round > back ? largest_.find(round - back) : largest_.end();
    largest = before == largest_.end() ? std::vector<float>(count) : before->second[b];
    largest.resize(count);
    return;
  }
  // Scalers that do not parse are ignored here: decoding the chunk reports them.
  auto taken = protocol::TakeScalers(answer.payload.span(), count);
  largest = taken.ok() ? std::move(*taken) : std::vector<float>(count);
}

std::vector<float> Sums::ScalersFromBefore(uint64_t round, uint32_t bucket) const {
  std::vector<float> scalers = largest_.at(round - setup_.plan.scalers_from).at(bucket);
  for (float& scaler : scalers) scaler *= setup_.plan.scaler_margin;
  return scalers;
}

std::vector<float> Sums::ScalersOf(uint64_t round, uint32_t bucket) const {
  if (setup_.plan.buckets[bucket].shared.empty()) return {};
  return setup_.plan.shares_before(round) ? BucketOf(round, bucket).scalers
                                          : ScalersFromBefore(round, bucket);
}

std::vector<std::vector<float>> Sums::SaveScalers(uint64_t applied) const {
  std::vector<std::vector<float>> saved;
  for (uint32_t back = 0; back < setup_.plan.scalers_from; ++back) {
    std::vector<float>& row = saved.emplace_back();
    const auto round = back < applied ? largest_.find(applied - back) : largest_.end();
    for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
      const size_t count = setup_.plan.buckets[b].shared.size();
      if (count == 0) continue;
      const std::vector<float> none(count);
      const std::vector<float>& largest = round == largest_.end() ? none : round->second.at(b);
      row.insert(row.end(), largest.begin(), largest.end());
    }
  }
  return saved;
}

void Sums::RestoreScalers(uint64_t applied, const std::vector<std::vector<float>>& saved) {
  for (uint64_t back = 0; back < saved.size() && back < applied; ++back) {
    const float* at = saved[back].data();
    for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
      const size_t count = setup_.plan.buckets[b].shared.size();
      if (count != 0) largest_[applied - back][b].assign(at, at + count);
      at += count;
    }
  }
}

bool Sums::Has(uint64_t round, uint32_t bucket) const {
  const auto found = rounds_.find(round);
  if (found == rounds_.end()) return false;
  const auto parts = found->second.buckets.find(bucket);
  const protocol::Bucket& planned = setup_.plan.buckets[bucket];
  return parts != found->second.buckets.end() &&
         parts->second.num_arrived == planned.chunks.size() &&
         (planned.shared.empty() || parts->second.scaled || !setup_.plan.shares_before(round));
}

bool Sums::Has(uint64_t round) const {
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
    if (!Has(round, b)) return false;
  }
  return true;
}

double Sums::learning_rate(uint64_t round) const {
  const auto found = rounds_.find(round);
  return found == rounds_.end() ? 0 : found->second.learning_rate.value_or(0);
}

bool Sums::has_learning_rate(uint64_t round) const {
  const auto found = rounds_.find(round);
  return found != rounds_.end() && found->second.learning_rate.has_value();
}

void Sums::Drop(uint64_t round) {
  rounds_.erase(rounds_.upper_bound(kPulled), rounds_.upper_bound(round));
  const uint64_t back = setup_.plan.scalers_from;
  if (round > back) largest_.erase(largest_.begin(), largest_.upper_bound(round - back));
}

Status Sums::Decode(uint64_t round, const Use& use) const {
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b)
    TERN_RETURN_IF_ERROR(Decode(round, b, use));
  return Ok();
}

Status Sums::Decode(uint64_t round, uint32_t bucket, const Use& use) const {
  const Bucket& answers = BucketOf(round, bucket);
  const std::vector<float> scalers = ScalersOf(round, bucket);
  for (const protocol::Chunk& chunk : setup_.plan.buckets[bucket].chunks) {
    Status decoded = DecodeChunk(chunk, scalers, answers.parts[chunk.index], use);
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
      Status decoded = DecodeChunk(chunk, {}, part,
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

namespace {

Status WrongSize(const protocol::Chunk& chunk, size_t seen, size_t expected) {
  return Status(Code::kMismatch, Cat(seen, " bytes for bucket ", chunk.bucket, ", chunk ",
                                     chunk.index, ", expected ", expected));
}

}  // namespace

Result<Sums::Opened> Sums::OpenChunk(const protocol::Chunk& chunk,
                                     const std::vector<float>& scalers, const Part& part) const {
  const protocol::ExchangePlan& plan = setup_.plan;
  const size_t bytes = part.payload.size(), whole_bytes = chunk.count * sizeof(float);
  if (part.whole && bytes != whole_bytes) return WrongSize(chunk, bytes, whole_bytes);
  Opened opened;
  opened.contributors = plan.central ? 1 : static_cast<int>(part.contributors);
  // No worker took part: the weights do not change.
  if (opened.contributors == 0 || (plan.central && bytes == 0)) {
    if (bytes != 0) return WrongSize(chunk, bytes, 0);
    return Opened();
  }
  if (!plan.central && part.contributors > plan.workers) {
    return Status(Code::kMismatch,
                  Cat(part.contributors, " contributors to bucket ", chunk.bucket, ", chunk ",
                      chunk.index, ", expected at most ", plan.workers));
  }
  opened.sums = part.payload.span();
  if (const auto largest = protocol::TakeScalers(opened.sums, chunk.scalers); !largest.ok())
    return largest.status();
  opened.sums = opened.sums.subspan(chunk.scalers * sizeof(float));
  const auto& shared = plan.buckets[chunk.bucket].shared;
  for (const uint32_t p : chunk.part_of) {
    const auto place = std::lower_bound(shared.begin(), shared.end(), p);
    const bool has_shared = place != shared.end() && *place == p && !scalers.empty();
    opened.scalers.push_back(has_shared ? scalers[static_cast<size_t>(place - shared.begin())] : 0);
  }
  return opened;
}

Status Sums::OpenSums(uint64_t round, uint32_t bucket, const UseSums& use) const {
  const Bucket& answers = BucketOf(round, bucket);
  const std::vector<float> scalers = ScalersOf(round, bucket);
  for (const protocol::Chunk& chunk : setup_.plan.buckets[bucket].chunks) {
    const auto opened = OpenChunk(chunk, scalers, answers.parts[chunk.index]);
    Status used = opened.status();
    if (opened.ok() && opened->contributors > 0) used = use(chunk, *opened);
    if (!used.ok()) return used.Within(Cat("the answer of round ", round));
  }
  return Ok();
}

Status Sums::DecodeChunk(const protocol::Chunk& chunk, const std::vector<float>& scalers,
                         const Part& part, const Use& use) const {
  const protocol::ExchangePlan& plan = setup_.plan;
  const auto opened = OpenChunk(chunk, scalers, part);
  if (!opened.ok()) return opened.status();
  if (opened->contributors == 0) return Ok();
  std::span<const uint8_t> rest = opened->sums;
  for (size_t i = 0; i < chunk.segments.size(); ++i) {
    const codec::Segment& segment = chunk.segments[i];
    const uint64_t base = plan.tensor_begin[segment.tensor] + segment.begin;
    const auto use_part = [&](uint64_t at, std::span<const float> values) {
      use(segment.tensor, base + at, values);
    };
    Result<size_t> size = segment.count * sizeof(float);
    if (part.whole) {
      UseFloats(rest.first(*size), use_part);
    } else if (plan.central) {
      size = plan.pull_codec->DecodeAloneTo(rest, segment, use_part);
    } else {
      const codec::Codec& codec = *plan.codec_of[segment.tensor];
      size = codec.SumSize(rest, segment, opened->contributors);
      if (size.ok())
        TERN_RETURN_IF_ERROR(codec.DecodeTo(rest.first(*size), segment, opened->contributors,
                                            opened->scalers[i], use_part));
    }
    if (!size.ok()) return size.status();
    rest = rest.subspan(*size);
  }
  return rest.empty() ? Ok()
                      : WrongSize(chunk, part.payload.size(), part.payload.size() - rest.size());
}

}  // namespace tern::client
