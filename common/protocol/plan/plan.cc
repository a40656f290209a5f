#include "common/protocol/plan/plan.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/base/hash.h"
#include "common/base/text.h"
#include "common/codec/codecs.h"
#include "common/protocol/plan/codec_options.h"
#include "common/protocol/plan/cuts.h"
#include "common/protocol/plan/layout.h"
#include "common/protocol/plan/spread.h"

namespace tern::protocol {

namespace {

// Planning takes about 100 bytes for each part and 200 bytes for each chunk.
constexpr uint64_t kMaxParts = uint64_t{1} << 22;
constexpr uint64_t kMaxChunks = uint64_t{1} << 20;

std::string CodecNameOf(const pb::Exchange& exchange, const TensorInfo& tensor) {
  for (const pb::CodecRule& rule : exchange.rules()) {
    if (rule.max_elements() != 0 && tensor.count > rule.max_elements()) continue;
    if (fnmatch(rule.tensors().c_str(), tensor.name.c_str(), 0) == 0) return rule.codec();
  }
  return exchange.codec();
}

Status ChooseCodecs(const pb::Job& job, const std::vector<TensorInfo>& tensors,
                    ExchangePlan* plan) {
  const pb::Exchange& exchange = job.exchange();
  std::map<std::string, std::shared_ptr<const codec::Codec>> codecs_by_name;
  for (const TensorInfo& tensor : tensors) {
    std::shared_ptr<const codec::Codec>& codec = codecs_by_name[CodecNameOf(exchange, tensor)];
    if (codec == nullptr) {
      Result<std::unique_ptr<codec::Codec>> new_codec =
          codec::MakeCodec(CodecNameOf(exchange, tensor), CodecOptions(job));
      if (!new_codec.ok()) return new_codec.status().Within("exchange, tensor " + tensor.name);
      codec = std::move(*new_codec);
      plan->codecs.push_back(codec);
    }
    plan->codec_of.push_back(codec.get());
  }
  return Ok();
}

Status ChoosePullCodec(const pb::Job& job, ExchangePlan* plan) {
  codec::Options options = CodecOptions(job);
  options.scaler_per_worker = true;  // A server has its own scalers, which it shares with no one.
  options.clip = codec::Clip::kNone;
  options.coded_sums = true;
  options.rotate = 0;
  options.error_feedback = false;  // The server's DownLink keeps the errors of what it sends.
  Result<std::unique_ptr<codec::Codec>> pull_codec =
      codec::MakeCodec(job.exchange().pull_codec(), options);
  if (!pull_codec.ok()) return pull_codec.status().Within("exchange.pull_codec");
  plan->codecs.push_back(std::move(*pull_codec));
  plan->pull_codec = plan->codecs.back().get();
  plan->is_central = true;
  return Ok();
}

// kBadJob if the model would have more than kMaxParts parts.
Status CheckNumParts(const ExchangePlan& plan) {
  uint64_t num_parts = 0;
  for (size_t t = 0; t < plan.tensor_count.size(); ++t) {
    const uint64_t scaler_elements = plan.codec_of[t]->scaler_elements();
    num_parts += scaler_elements == 0 ? 1 : (plan.tensor_count[t] - 1) / scaler_elements + 1;
  }
  if (num_parts <= kMaxParts) return Ok();
  return Status(Code::kBadJob,
                Cat("exchange.scaler_elements: the model would have ", num_parts,
                    " scalers, expected at most ", kMaxParts, "; give a larger number"));
}

// kBadJob if chunks of about `limit` elements would be more than kMaxChunks.
Status CheckNumChunks(const ExchangePlan& plan, uint64_t limit) {
  uint64_t num_chunks = 0;
  for (const Bucket& bucket : plan.buckets) num_chunks += (bucket.count + limit - 1) / limit;
  if (num_chunks <= kMaxChunks) return Ok();
  return Status(Code::kBadJob,
                Cat("exchange.chunk_kib: the model would have ", num_chunks,
                    " chunks, expected at most ", kMaxChunks, "; give a larger number"));
}

TensorsOfArena TensorsOf(const ExchangePlan& plan) {
  return {plan.tensor_begin, plan.tensor_count, plan.column, plan.codec_of};
}

// Appends a copy of all buckets for each of the optimizer's state arrays.
void RepeatBuckets(uint32_t num_slots, ExchangePlan* plan) {
  const std::vector<Bucket> model_buckets = plan->buckets;
  for (uint32_t slot = 1; slot <= num_slots; ++slot) {
    for (Bucket bucket : model_buckets) {
      bucket.arena_index = slot;
      plan->buckets.push_back(std::move(bucket));
    }
  }
}

void SetPartsAndSharedScalers(ExchangePlan* plan) {
  for (Bucket& bucket : plan->buckets) {
    const auto first_at = [&](uint64_t at) {
      return std::partition_point(plan->parts.begin(), plan->parts.end(), [&](const Part& part) {
        return plan->tensor_begin[part.tensor] + part.begin < at;
      });
    };
    const auto first = first_at(bucket.begin), end = first_at(bucket.begin + bucket.count);
    bucket.first_part = static_cast<uint32_t>(first - plan->parts.begin());
    bucket.parts = static_cast<uint32_t>(end - first);
    for (uint32_t p = bucket.first_part; p < bucket.first_part + bucket.parts; ++p) {
      if (plan->codec_of[plan->parts[p].tensor]->shares_scaler()) bucket.shared_parts.push_back(p);
    }
  }
}

Chunk MakeChunk(const ExchangePlan& plan, const Bucket& bucket, uint64_t begin, uint64_t count) {
  Chunk chunk;
  chunk.begin = begin;
  chunk.count = count;
  const auto first_part = plan.parts.begin() + bucket.first_part;
  const auto first_part_of_chunk =
      std::partition_point(first_part, first_part + bucket.parts, [&](const Part& part) {
        return plan.tensor_begin[part.tensor] + part.begin + part.count <= begin;
      });
  for (auto p = static_cast<uint32_t>(first_part_of_chunk - plan.parts.begin());
       p < bucket.first_part + bucket.parts; ++p) {
    const Part& part = plan.parts[p];
    const uint64_t tensor_begin = plan.tensor_begin[part.tensor];
    if (tensor_begin + part.begin >= begin + count) break;
    const uint64_t segment_begin = std::max(begin, tensor_begin + part.begin);
    const uint64_t segment_end = std::min(begin + count, tensor_begin + part.begin + part.count);
    const codec::Segment segment{part.tensor, segment_begin - tensor_begin,
                                 segment_end - segment_begin, plan.column[part.tensor]};
    const codec::Codec& codec = *plan.codec_of[part.tensor];
    chunk.segments.push_back(segment);
    chunk.part_of_segment.push_back(p);
    chunk.max_push_bytes += codec.MaxEncodedSize(segment);
    chunk.max_sum_bytes += plan.is_central
                               ? plan.pull_codec->MaxEncodedSize(segment)
                               : codec.MaxSumSize(segment, static_cast<int>(plan.workers));
  }
  return chunk;
}

// Returns the end of the group of elements coded together that begins at `begin`.
uint64_t EndOfGroup(const ExchangePlan& plan, const Bucket& bucket, uint64_t begin) {
  uint32_t t = bucket.first_tensor;
  while (begin >= plan.tensor_begin[t] + plan.tensor_count[t]) ++t;
  const uint64_t left_in_tensor = plan.tensor_begin[t] + plan.tensor_count[t] - begin;
  return begin + std::min(left_in_tensor, plan.codec_of[t]->Granularity(plan.column[t]));
}

// The chunks of a bucket, each of about `limit` elements.
std::vector<Chunk> ChunksOf(const ExchangePlan& plan, const Bucket& bucket, uint64_t limit) {
  std::vector<Chunk> chunks;
  const uint64_t num_chunks = std::max<uint64_t>(1, (bucket.count + limit - 1) / limit);
  const uint64_t chunk_elements = (bucket.count + num_chunks - 1) / num_chunks;
  for (uint64_t begin = bucket.begin, end = bucket.begin + bucket.count; begin < end;) {
    uint64_t chunk_end = CutBefore(TensorsOf(plan), std::min(begin + chunk_elements, end));
    // A group of elements that are coded together may be larger than `limit`.
    if (chunk_end <= begin) chunk_end = std::min(end, EndOfGroup(plan, bucket, begin));
    Chunk chunk = MakeChunk(plan, bucket, begin, chunk_end - begin);
    chunk.index = static_cast<uint32_t>(chunks.size());
    if (chunk.index == 0 && plan.scaler_age_rounds != 0) {
      chunk.num_scalers = bucket.shared_parts.size();
      chunk.max_push_bytes += chunk.num_scalers * sizeof(float);
      chunk.max_sum_bytes += chunk.num_scalers * sizeof(float);
    }
    chunks.push_back(std::move(chunk));
    begin = chunk_end;
  }
  return chunks;
}

uint64_t LargestPayload(const ExchangePlan& plan, const Chunk& chunk) {
  const uint64_t uncoded_bytes = plan.is_central ? chunk.count * sizeof(float) : 0;
  return std::max<uint64_t>({chunk.max_push_bytes, chunk.max_sum_bytes, uncoded_bytes});
}

uint64_t LargestPayload(const ExchangePlan& plan, const std::vector<Chunk>& chunks) {
  uint64_t largest = 0;
  for (const Chunk& chunk : chunks) largest = std::max(largest, LargestPayload(plan, chunk));
  return largest;
}

// Cuts a bucket into chunks of about `limit` elements; fewer where a payload could otherwise be
// larger than `max_payload` bytes, unless that is because of elements that are coded together.
std::vector<Chunk> ChunksWithin(uint64_t max_payload, uint64_t limit, const ExchangePlan& plan,
                                const Bucket& bucket) {
  std::vector<Chunk> chunks = ChunksOf(plan, bucket, limit);
  uint64_t largest_payload = LargestPayload(plan, chunks);
  for (uint64_t half = limit / 2; largest_payload > max_payload && half > 0; half /= 2) {
    std::vector<Chunk> smaller_chunks = ChunksOf(plan, bucket, half);
    const uint64_t smaller_payload = LargestPayload(plan, smaller_chunks);
    if (smaller_payload == largest_payload && half < bucket.count) break;
    chunks = std::move(smaller_chunks);
    largest_payload = smaller_payload;
  }
  return chunks;
}

uint64_t MaxPushBytes(const ExchangePlan& plan) {
  uint64_t bytes = 0;
  for (uint32_t t = 0; t < plan.tensor_count.size(); ++t)
    bytes += plan.codec_of[t]->MaxEncodedSize({t, 0, plan.tensor_count[t], plan.column[t]});
  return bytes;
}

// The size of chunks, in elements.
uint64_t ChunkLimit(const pb::Job& job, const ExchangePlan& plan) {
  const uint64_t limit = uint64_t{job.exchange().chunk_kib()} * 256;  // 256 fp32 values take a KiB.
  // Servers apply lars to whole tensors.
  if (plan.is_central && job.train().optimizer().name() == "lars") return limit;
  const auto num_lanes =
      std::accumulate(plan.data_lanes.begin(), plan.data_lanes.end(), uint64_t{0});
  const uint64_t num_parts = std::max<uint64_t>(1, algorithm::FactsOf(job).num_parts);
  return SpreadLimit(
      limit, plan.parameters() / num_parts / num_lanes,
      static_cast<double>(MaxPushBytes(plan)) / static_cast<double>(plan.parameters()));
}

// Cuts all buckets into chunks, and gives these to data lanes.
Status CutChunks(const pb::Job& job, ExchangePlan* plan) {
  const uint64_t limit = ChunkLimit(job, *plan);
  TERN_RETURN_IF_ERROR(CheckNumChunks(*plan, limit));
  const uint64_t max_payload = job.security() == pb::Job::curve ? kMaxEncryptedPayload : UINT64_MAX;
  Dealer dealer(plan->data_lanes);
  for (size_t b = 0; b < plan->buckets.size(); ++b) {
    Bucket& bucket = plan->buckets[b];
    bucket.chunks = ChunksWithin(max_payload, limit, *plan, bucket);
    for (Chunk& chunk : bucket.chunks) {
      chunk.bucket = static_cast<uint32_t>(b);
      const DataLane lane = dealer.Deal(chunk.max_push_bytes + chunk.max_sum_bytes);
      chunk.shard = lane.shard;
      chunk.lane = lane.lane;
    }
    bucket.home_shard = bucket.chunks.front().shard;
  }
  return Ok();
}

uint64_t DigestOf(const ExchangePlan& plan) {
  std::string text = "plan 2 " + std::to_string(plan.workers);
  const auto append = [&text](uint64_t value) { text += " " + std::to_string(value); };
  for (const codec::Codec* codec : plan.codec_of) text += " " + std::string(codec->name());
  // The word "code" makes the digest differ from that of earlier versions of Tern, which sent a sum
  // even if the pull codec's SingleCodeIsSum() is false.
  if (plan.is_central)
    text += (plan.pull_codec->SingleCodeIsSum() ? " pull " : " pull code ") +
            std::string(plan.pull_codec->name());
  if (plan.parts.size() != plan.tensor_count.size()) {
    text += " parts";
    for (const Part& part : plan.parts) append(part.count);
  }
  if (plan.scaler_age_rounds != 0) {
    text += " scalers " + std::to_string(plan.scaler_margin);
    append(plan.scaler_age_rounds);
  }
  return Digest(text + LayoutText(plan.data_lanes, plan.buckets));
}

}  // namespace

Result<ExchangePlan> ExchangePlan::Make(const pb::Job& job, const std::vector<TensorInfo>& tensors,
                                        uint32_t num_slots) {
  ExchangePlan plan;
  plan.workers = algorithm::NumRanks(job);
  plan.seed = job.seed();
  for (const pb::Server& server : job.servers()) plan.data_lanes.push_back(server.data_sockets());
  uint64_t begin = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.count == 0)
      return Status(Code::kBadJob, "model: tensor " + tensor.name + " has no elements");
    plan.tensor_begin.push_back(begin);
    plan.tensor_count.push_back(tensor.count);
    plan.column.push_back(tensor.column);
    begin += tensor.count;
  }
  if (tensors.empty()) return Status(Code::kBadJob, "model: there are no parameters to train");
  TERN_RETURN_IF_ERROR(ChooseCodecs(job, tensors, &plan));
  TERN_RETURN_IF_ERROR(CheckNumParts(plan));
  const algorithm::Facts facts = algorithm::FactsOf(job);
  plan.has_rounds = facts.has_rounds;
  plan.pulls_first = facts.has_term && WorkersFormTerm(job);
  plan.sums_on_hosts = job.exchange().host_sum();
  if (job.exchange().scaler() == pb::Exchange::previous) plan.scaler_age_rounds = facts.window;
  plan.scaler_margin = static_cast<float>(job.exchange().scaler_margin());
  plan.max_scaler = static_cast<float>(job.exchange().max_scaler());
  if (job.train().parameters() == pb::Train::central)
    TERN_RETURN_IF_ERROR(ChoosePullCodec(job, &plan));
  if (facts.num_parts != 0) {
    Result<std::vector<Bucket>> ranges =
        CutRanges(TensorsOf(plan), facts.num_parts, facts.parts_key);
    if (!ranges.ok()) return ranges.status();
    plan.buckets = std::move(*ranges);
  } else {
    const bool needs_one_bucket =
        std::any_of(plan.codec_of.begin(), plan.codec_of.end(),
                    [](const auto& codec) { return codec->prepares_tensors_together(); });
    const uint64_t bucket_kib = job.exchange().bucket_kib();
    // 256 fp32 values take a KiB.
    plan.buckets =
        CutBuckets(TensorsOf(plan), needs_one_bucket ? plan.parameters() : bucket_kib * 256);
  }
  PartsOfTensors parts = CutParts(TensorsOf(plan), plan.buckets);
  plan.parts = std::move(parts.parts);
  plan.first_part = std::move(parts.first_part);
  if (facts.averages_state) RepeatBuckets(num_slots, &plan);
  SetPartsAndSharedScalers(&plan);
  TERN_RETURN_IF_ERROR(CutChunks(job, &plan));
  plan.digest = DigestOf(plan);
  return plan;
}

uint32_t ExchangePlan::ChunkIndex(const Chunk& chunk) const {
  size_t num_before = 0;
  for (uint32_t b = 0; b < chunk.bucket; ++b) num_before += buckets[b].chunks.size();
  return static_cast<uint32_t>(num_before) + chunk.index;
}

std::vector<std::vector<uint32_t>> ExchangePlan::BucketsOfTensors() const {
  std::vector<std::vector<uint32_t>> buckets_by_tensor(tensor_count.size());
  for (uint32_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    for (uint32_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensors; ++t)
      buckets_by_tensor[t].push_back(b);
  }
  return buckets_by_tensor;
}

RoundBytes CountRoundBytes(const ExchangePlan& plan) {
  RoundBytes bytes;
  for (const Bucket& bucket : plan.buckets) {
    if (plan.scaler_age_rounds == 0) bytes.scalers += bucket.shared_parts.size() * sizeof(float);
    for (const Chunk& chunk : bucket.chunks) {
      bytes.push += chunk.max_push_bytes;
      bytes.sum += chunk.max_sum_bytes;
      if (plan.pulls_first) bytes.pulled += chunk.max_sum_bytes;
      bytes.largest_payload = std::max(bytes.largest_payload, LargestPayload(plan, chunk));
    }
  }
  return bytes;
}

}  // namespace tern::protocol
