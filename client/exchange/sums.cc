#include "client/exchange/sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/text.h"
#include "common/base/trace.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/forms.h"

namespace tern::client {
namespace {

// Calls use(index of the first value, values) for the floats in `bytes`, in pieces that fit a
// cache.
void UseFloats(std::span<const uint8_t> bytes, const codec::Codec::BlockVisitor& use) {
  std::array<float, 4096> values;
  const uint64_t num_values = bytes.size() / sizeof(float);
  for (uint64_t first = 0; first < num_values; first += values.size()) {
    const uint64_t n = std::min<uint64_t>(values.size(), num_values - first);
    std::memcpy(values.data(), bytes.data() + first * sizeof(float), n * sizeof(float));
    use(first, std::span(values).first(n));
  }
}

Status WithAdvice(const Status& decode_status) {
  if (decode_status.code() != Code::kDiverged) return decode_status;
  return Status(Code::kDiverged, decode_status.message() + "; lower the learning rate");
}

}  // namespace

void Sums::Store(const Answer& answer) {
  const protocol::Bucket& planned_bucket = setup_.plan.buckets[answer.cell.bucket];
  const pb::Outcome& outcome = answer.outcome;
  counted_clock_ = std::max<uint64_t>(counted_clock_, outcome.pulled().clock());
  Round& round = rounds_[outcome.has_pulled() ? kPullRound : protocol::ExchangeOf(outcome)];
  Bucket& bucket = round.buckets[answer.cell.bucket];
  if (answer.cell.kind == protocol::Kind::kScale) {
    Result<std::vector<float>> scalers = protocol::ParseScalers(
        answer.payload, planned_bucket.shared_parts.size(), setup_.plan.max_scaler);
    if (scalers.ok()) bucket.scalers = std::move(*scalers);
    bucket.has_scalers = true;  // An answer without scalers counts, too: no worker took part.
    return;
  }
  bucket.chunks.resize(planned_bucket.chunks.size());
  ChunkAnswer& chunk_answer = bucket.chunks[answer.cell.chunk];
  bucket.num_arrived += !chunk_answer.has_arrived;
  chunk_answer = {true, protocol::HasFp32Payload(outcome), outcome.of_round().contributors(),
                  answer.payload};
  if (outcome.has_learning_rate()) round.learning_rate = outcome.learning_rate();
  if (planned_bucket.chunks[answer.cell.chunk].num_scalers != 0) StoreMaxScalers(answer);
}

void Sums::StoreMaxScalers(const Answer& answer) {
  const uint64_t round = answer.outcome.of_round().round();
  const uint32_t bucket = answer.cell.bucket;
  const size_t count = setup_.plan.chunk(bucket, answer.cell.chunk).num_scalers;
  std::vector<float>& max_scalers = max_scalers_[round][bucket];
  const uint32_t rounds_back = setup_.plan.scaler_age_rounds;
  // If no worker took part, later rounds use the scalers that this round would have used.
  if (answer.outcome.of_round().contributors() == 0) {
    const auto earlier_round =
        round > rounds_back ? max_scalers_.find(round - rounds_back) : max_scalers_.end();
    max_scalers = earlier_round == max_scalers_.end() ? std::vector<float>(count)
                                                      : earlier_round->second[bucket];
    max_scalers.resize(count);
    return;
  }
  // Scalers that do not parse are ignored here: decoding the chunk reports them.
  auto leading_scalers =
      protocol::ParseLeadingScalers(answer.payload.span(), count, setup_.plan.max_scaler);
  max_scalers = leading_scalers.ok() ? std::move(*leading_scalers) : std::vector<float>(count);
}

std::vector<float> Sums::ScalersOfEarlierRound(uint64_t round, uint32_t bucket) const {
  std::vector<float> scalers = max_scalers_.at(round - setup_.plan.scaler_age_rounds).at(bucket);
  for (float& scaler : scalers) scaler *= setup_.plan.scaler_margin;
  return scalers;
}

std::vector<float> Sums::ScalersOf(uint64_t round, uint32_t bucket) const {
  if (setup_.plan.buckets[bucket].shared_parts.empty()) return {};
  return setup_.plan.shares_before(round) ? BucketOf(round, bucket).scalers
                                          : ScalersOfEarlierRound(round, bucket);
}

std::vector<std::vector<float>> Sums::SaveScalers(uint64_t applied) const {
  std::vector<std::vector<float>> saved_scalers;
  for (uint32_t rounds_back = 0; rounds_back < setup_.plan.scaler_age_rounds; ++rounds_back) {
    std::vector<float>& round_scalers = saved_scalers.emplace_back();
    const auto found_round =
        rounds_back < applied ? max_scalers_.find(applied - rounds_back) : max_scalers_.end();
    for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
      const size_t count = setup_.plan.buckets[b].shared_parts.size();
      if (count == 0) continue;
      const std::vector<float> zeros(count);
      const std::vector<float>& round_max_scalers =
          found_round == max_scalers_.end() ? zeros : found_round->second.at(b);
      round_scalers.insert(round_scalers.end(), round_max_scalers.begin(), round_max_scalers.end());
    }
  }
  return saved_scalers;
}

void Sums::RestoreScalers(uint64_t applied, const std::vector<std::vector<float>>& saved_scalers) {
  for (uint64_t rounds_back = 0; rounds_back < saved_scalers.size() && rounds_back < applied;
       ++rounds_back) {
    const float* next_scaler = saved_scalers[rounds_back].data();
    for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
      const size_t count = setup_.plan.buckets[b].shared_parts.size();
      if (count != 0)
        max_scalers_[applied - rounds_back][b].assign(next_scaler, next_scaler + count);
      next_scaler += count;
    }
  }
}

bool Sums::HasAnswers(uint64_t round, uint32_t bucket) const {
  const auto found_round = rounds_.find(round);
  if (found_round == rounds_.end()) return false;
  const auto found_bucket = found_round->second.buckets.find(bucket);
  const protocol::Bucket& planned_bucket = setup_.plan.buckets[bucket];
  return found_bucket != found_round->second.buckets.end() &&
         found_bucket->second.num_arrived == planned_bucket.chunks.size() &&
         (planned_bucket.shared_parts.empty() || found_bucket->second.has_scalers ||
          !setup_.plan.shares_before(round));
}

bool Sums::HasAnswers(uint64_t round) const {
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
    if (!HasAnswers(round, b)) return false;
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

void Sums::DropRoundsUpTo(uint64_t round) {
  rounds_.erase(rounds_.upper_bound(kPullRound), rounds_.upper_bound(round));
  const uint64_t rounds_back = setup_.plan.scaler_age_rounds;
  if (round > rounds_back)
    max_scalers_.erase(max_scalers_.begin(), max_scalers_.upper_bound(round - rounds_back));
}

Status Sums::Decode(uint64_t round, const UseValues& use) const {
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b)
    TERN_RETURN_IF_ERROR(Decode(round, b, use));
  return Ok();
}

Status Sums::Decode(uint64_t round, uint32_t bucket, const UseValues& use) const {
  const Bucket& bucket_answers = BucketOf(round, bucket);
  const std::vector<float> scalers = ScalersOf(round, bucket);
  for (const protocol::Chunk& chunk : setup_.plan.buckets[bucket].chunks) {
    Status decode_status = DecodeChunk(chunk, scalers, bucket_answers.chunks[chunk.index], use);
    if (!decode_status.ok())
      return WithAdvice(decode_status.Within(Cat("the answer of round ", round)));
  }
  return Ok();
}

Status Sums::InstallWeights(uint64_t round, float* w) const {
  const TraceSpan span("decode", {.round = round});
  const bool sends_changes = setup_.job.exchange().pull() == pb::Exchange::changes;
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      const Bucket& bucket_answers = BucketOf(round, chunk.bucket);
      const ChunkAnswer& answer = bucket_answers.chunks[chunk.index];
      const bool is_change = sends_changes && !answer.is_uncoded;
      Status decode_status = DecodeChunk(
          chunk, {}, answer, [&](uint32_t, uint64_t first, std::span<const float> values) {
            float* target = w + first;
            for (size_t i = 0; i < values.size(); ++i)
              target[i] = is_change ? target[i] + values[i] : values[i];
          });
      if (!decode_status.ok())
        return WithAdvice(decode_status.Within(Cat("the weights of exchange ", round)));
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

Result<Sums::EncodedSum> Sums::GetEncodedSum(const protocol::Chunk& chunk,
                                             const std::vector<float>& scalers,
                                             const ChunkAnswer& answer) const {
  const protocol::ExchangePlan& plan = setup_.plan;
  const size_t payload_bytes = answer.payload.size(), uncoded_bytes = chunk.count * sizeof(float);
  if (answer.is_uncoded && payload_bytes != uncoded_bytes)
    return WrongSize(chunk, payload_bytes, uncoded_bytes);
  EncodedSum encoded_sum;
  encoded_sum.contributors = plan.is_central ? 1 : static_cast<int>(answer.contributors);
  // If no worker took part, or the servers sent an empty payload, the weights do not change.
  if (encoded_sum.contributors == 0 || (plan.is_central && payload_bytes == 0)) {
    if (payload_bytes != 0) return WrongSize(chunk, payload_bytes, 0);
    return EncodedSum();
  }
  if (!plan.is_central && answer.contributors > plan.workers) {
    return Status(Code::kMismatch,
                  Cat(answer.contributors, " contributors to bucket ", chunk.bucket, ", chunk ",
                      chunk.index, ", expected at most ", plan.workers));
  }
  encoded_sum.sums = answer.payload.span();
  if (const auto leading_scalers =
          protocol::ParseLeadingScalers(encoded_sum.sums, chunk.num_scalers, plan.max_scaler);
      !leading_scalers.ok())
    return leading_scalers.status();
  encoded_sum.sums = encoded_sum.sums.subspan(chunk.num_scalers * sizeof(float));
  const auto& shared_parts = plan.buckets[chunk.bucket].shared_parts;
  // Store keeps no scalers of an answer that does not parse, and none are needed if no worker took
  // part.
  const bool needs_scalers = !plan.is_central && !answer.is_uncoded && !shared_parts.empty();
  if (needs_scalers && scalers.empty()) {
    return Status(Code::kMismatch, Cat("saw no valid scalers of bucket ", chunk.bucket,
                                       ", expected ", shared_parts.size()));
  }
  for (const uint32_t p : chunk.part_of_segment) {
    const auto shared_part = std::lower_bound(shared_parts.begin(), shared_parts.end(), p);
    const bool has_shared_scaler =
        shared_part != shared_parts.end() && *shared_part == p && !scalers.empty();
    encoded_sum.scalers.push_back(
        has_shared_scaler ? scalers[static_cast<size_t>(shared_part - shared_parts.begin())] : 0);
  }
  return encoded_sum;
}

Status Sums::VisitEncodedSums(uint64_t round, uint32_t bucket, const UseEncodedSum& use) const {
  const Bucket& bucket_answers = BucketOf(round, bucket);
  const std::vector<float> scalers = ScalersOf(round, bucket);
  for (const protocol::Chunk& chunk : setup_.plan.buckets[bucket].chunks) {
    const auto encoded_sum = GetEncodedSum(chunk, scalers, bucket_answers.chunks[chunk.index]);
    Status status = encoded_sum.status();
    if (encoded_sum.ok() && encoded_sum->contributors > 0) status = use(chunk, *encoded_sum);
    if (!status.ok()) return status.Within(Cat("the answer of round ", round));
  }
  return Ok();
}

Status Sums::DecodeChunk(const protocol::Chunk& chunk, const std::vector<float>& scalers,
                         const ChunkAnswer& answer, const UseValues& use) const {
  const protocol::ExchangePlan& plan = setup_.plan;
  const auto encoded_sum = GetEncodedSum(chunk, scalers, answer);
  if (!encoded_sum.ok()) return encoded_sum.status();
  if (encoded_sum->contributors == 0) return Ok();
  std::span<const uint8_t> unread = encoded_sum->sums;
  for (size_t i = 0; i < chunk.segments.size(); ++i) {
    const codec::Segment& segment = chunk.segments[i];
    const uint64_t segment_begin = plan.tensor_begin[segment.tensor] + segment.begin;
    const auto use_block = [&](uint64_t first, std::span<const float> values) {
      use(segment.tensor, segment_begin + first, values);
    };
    Result<size_t> sum_bytes = segment.count * sizeof(float);
    if (answer.is_uncoded) {
      UseFloats(unread.first(*sum_bytes), use_block);
    } else if (plan.is_central && !plan.pull_codec->SingleCodeIsSum()) {
      sum_bytes = plan.pull_codec->DecodeSingleCodeInBlocks(unread, segment, use_block);
    } else {
      const codec::Codec& codec =
          plan.is_central ? *plan.pull_codec : *plan.codec_of[segment.tensor];
      sum_bytes = codec.SumSize(unread, segment, encoded_sum->contributors);
      if (sum_bytes.ok())
        TERN_RETURN_IF_ERROR(codec.DecodeInBlocks(unread.first(*sum_bytes), segment,
                                                  encoded_sum->contributors,
                                                  encoded_sum->scalers[i], use_block));
    }
    if (!sum_bytes.ok()) return sum_bytes.status();
    unread = unread.subspan(*sum_bytes);
  }
  return unread.empty()
             ? Ok()
             : WrongSize(chunk, answer.payload.size(), answer.payload.size() - unread.size());
}

}  // namespace tern::client
