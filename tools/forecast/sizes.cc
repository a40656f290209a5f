#include "tools/forecast/sizes.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "common/net/frame.h"
#include "common/protocol/rounds/message.h"
#include "kernels/codes/philox.h"
#include "kernels/codes/stats.h"
#include "models/graph/normal.h"

namespace tern::tools {

namespace {

constexpr uint64_t kLateRound = 100000;  // In this round the warm-up of every codec is over.

// Bytes that a worker sends, that it receives, and that the leader of a host sends.
struct ByteCounts {
  double up = 0, down = 0, of_host = 0;
};

// Returns the bytes of a message with this header and a payload of `payload_bytes` bytes.
double WireBytes(const pb::Envelope& envelope, double payload_bytes) {
  const Result<std::string> header = net::EncodeHeader(envelope);
  const double bytes = header.ok() ? static_cast<double>(net::WireBytes(header->size())) : 0;
  // ZMTP frames a payload with 2 bytes, or with 9 if it is longer than 255.
  return bytes + (payload_bytes <= 0     ? 0
                  : payload_bytes <= 255 ? payload_bytes + 2
                                         : payload_bytes + 9);
}

// Returns the header of a worker's message for a cell. In a cell the servers combine over the
// workers the scalers of a bucket, or the pushes of a chunk.
pb::Envelope ContributionHeader(const protocol::ExchangePlan& plan, protocol::Cell cell,
                                bool has_digest) {
  pb::Envelope envelope;
  pb::Contribution* contribution = protocol::MutableContribution(cell.kind, &envelope);
  contribution->set_bucket(cell.bucket);
  contribution->set_chunk(cell.chunk);
  contribution->set_rank(1);
  contribution->set_incarnation(1);
  contribution->set_epoch(1);
  if (plan.has_rounds) {
    contribution->mutable_in_round()->set_round(kLateRound);
    contribution->mutable_in_round()->set_applied(kLateRound - 1);
    if (has_digest) contribution->mutable_in_round()->set_digest(1);
  } else {
    contribution->mutable_at_clock()->set_clock(kLateRound);
    contribution->mutable_at_clock()->set_holds(kLateRound);
    contribution->mutable_at_clock()->set_wants_weights(true);
  }
  return envelope;
}

// Returns the header of a worker's request for the weights of a chunk.
pb::Envelope PullHeader(const protocol::ExchangePlan& plan, protocol::Cell cell) {
  pb::Envelope envelope = ContributionHeader(plan, cell, false);
  pb::Contribution::Pull* pull =
      protocol::MutableContribution(cell.kind, &envelope)->mutable_pull();
  pull->set_number(kLateRound);
  pull->mutable_weights();
  return envelope;
}

// Returns the header of the message in which the leader of a host sends a sum.
pb::Envelope HostSumHeader(const protocol::ExchangePlan& plan, protocol::Cell cell, bool has_digest,
                           uint32_t workers_a_host) {
  pb::Envelope envelope = ContributionHeader(plan, cell, has_digest);
  pb::Contribution* contribution = protocol::MutableContribution(cell.kind, &envelope);
  for (uint32_t rank = 0; rank < workers_a_host; ++rank) {
    pb::Contribution::Contributor* each = contribution->mutable_in_round()->add_of();
    each->set_rank(rank);
    each->set_incarnation(1);
  }
  return envelope;
}

// Whether hosts could add up pushes of this plan, if the job had exchange.host_sum.
bool CanSumOnHosts(const protocol::ExchangePlan& plan) {
  return plan.has_rounds && !plan.is_central &&
         std::all_of(plan.codec_of.begin(), plan.codec_of.end(),
                     [](const codec::Codec* codec) { return codec->adds_partial_sums(); });
}

// Returns the header of a server's answer for a cell.
pb::Envelope AnswerHeader(const protocol::ExchangePlan& plan, protocol::Cell cell) {
  pb::Envelope envelope;
  pb::Outcome* outcome = protocol::MutableOutcome(cell.kind, &envelope);
  outcome->set_bucket(cell.bucket);
  outcome->set_chunk(cell.chunk);
  outcome->set_learning_rate(0.01);
  if (plan.has_rounds) {
    pb::Outcome::OfRound* of_round = outcome->mutable_of_round();
    of_round->set_round(kLateRound);
    of_round->set_contributors(plan.workers);
    of_round->set_floor(kLateRound - 1);
    of_round->set_contributor_bits(std::string((plan.workers + 7) / 8, '\xff'));
  } else {
    pb::Outcome::AtClock* at_clock = outcome->mutable_at_clock();
    at_clock->set_clock(kLateRound);
    at_clock->set_staleness(plan.workers);
    at_clock->set_total(kLateRound);
    at_clock->mutable_weights()->set_version(kLateRound);
  }
  return envelope;
}

// Encodes one segment (a piece of a chunk, within one tensor) of every worker, adds the codes up as
// a server does, and returns the sizes of a worker's code and of the encoded sum.
class SegmentCoder {
 public:
  SegmentCoder(uint32_t workers, uint32_t workers_a_host)
      : num_workers_(workers), workers_a_host_(workers_a_host) {}

  Result<ByteCounts> SizesOfCode(const codec::Codec& codec, uint64_t count, uint64_t column) {
    const std::tuple key{&codec, count, column};
    if (const auto known_entry = known_sizes_.find(key); known_entry != known_sizes_.end())
      return known_entry->second;
    const uint64_t granularity = codec.Granularity(column);
    uint64_t sample_count = std::min(count, kSampledElements);
    sample_count = std::min(count, (sample_count + granularity - 1) / granularity * granularity);
    Result<ByteCounts> sizes = EncodeAndCount(codec, {0, 0, sample_count, column});
    if (!sizes.ok()) return sizes;
    const double extrapolation = static_cast<double>(count) / static_cast<double>(sample_count);
    sizes->up *= extrapolation;
    sizes->down *= extrapolation;
    sizes->of_host *= extrapolation;
    return known_sizes_[key] = *sizes;
  }

 private:
  // Returns the values of a rank that a codec encodes, with error compensation if the codec has a
  // memory of earlier errors. They are the same for a codec that rotates, because Gaussian values
  // that are rotated are Gaussian values.
  std::vector<float> ValuesToCode(const codec::Codec& codec, uint16_t rank, uint64_t count) {
    std::vector<float> values = GaussianValues(rank, count);
    const auto memory = codec.NewMemory(count);
    if (memory == nullptr) return values;
    const std::span<const float> values_to_encode = memory->Compensate(0, values, values);
    return {values_to_encode.begin(), values_to_encode.end()};
  }

  Result<ByteCounts> EncodeAndCount(const codec::Codec& codec, const codec::Segment& segment) {
    std::vector<std::vector<float>> values;
    std::vector<codec::EncodeParams> params_of_rank;
    float scaler = 0;
    kernels::NoiseKey noise_key{.seed = 1, .round = kLateRound};
    for (uint32_t rank = 0; rank < num_workers_; ++rank) {
      noise_key.rank = static_cast<uint16_t>(rank);
      values.push_back(ValuesToCode(codec, noise_key.rank, segment.count));
      const kernels::Stats stats = kernels::ComputeStats(values[rank].data(), segment.count);
      params_of_rank.push_back(codec.Prepare(stats, values[rank], noise_key));
      scaler = std::max(scaler, params_of_rank.back().scaler);
    }
    const auto sum_memory = codec.NewSumMemory(segment);
    codec::RecodeInputs recode_inputs{.noise = noise_key, .memory = sum_memory.get()};
    recode_inputs.noise.stream = kernels::NoiseStream::kServerCodes;
    const auto accumulator =
        codec.NewAccumulator(segment, static_cast<int>(num_workers_), recode_inputs);
    const auto host_accumulator =
        codec.NewAccumulator(segment, static_cast<int>(num_workers_), recode_inputs);
    ByteCounts sizes;
    for (uint32_t rank = 0; rank < num_workers_; ++rank) {
      if (codec.shares_scaler()) params_of_rank[rank].scaler = scaler;
      noise_key.rank = static_cast<uint16_t>(rank);
      std::vector<uint8_t> code;
      codec.Encode(values[rank].data(), segment, params_of_rank[rank], noise_key, &code);
      sizes.up += static_cast<double>(code.size()) / num_workers_;
      const Result<size_t> added_bytes = accumulator->Add(static_cast<int>(rank), code);
      if (!added_bytes.ok()) return added_bytes.status();
      if (rank < workers_a_host_ && codec.adds_partial_sums())
        TERN_RETURN_IF_ERROR(host_accumulator->Add(static_cast<int>(rank), code).status());
    }
    if (codec.adds_partial_sums()) {
      std::vector<uint8_t> host_sum;
      host_accumulator->EncodePartial(&host_sum);
      sizes.of_host = static_cast<double>(host_sum.size());
    }
    std::vector<uint8_t> encoded_sum;
    accumulator->EncodeSum(&encoded_sum);
    sizes.down = static_cast<double>(encoded_sum.size());
    return sizes;
  }

  const uint32_t num_workers_, workers_a_host_;
  std::map<std::tuple<const codec::Codec*, uint64_t, uint64_t>, ByteCounts> known_sizes_;
};

}  // namespace

std::vector<float> GaussianValues(uint16_t rank, uint64_t count) {
  const kernels::NoiseKey noise_key{.seed = 1, .stream = kernels::NoiseStream::kInit, .rank = rank};
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; i += 4) {
    const auto random_words = kernels::NoiseBlock(noise_key, static_cast<uint32_t>(i / 4), 0);
    for (uint64_t k = 0; k < 4 && i + k < count; ++k)
      values[i + k] =
          static_cast<float>(1e-3 * models::NormalQuantile((random_words[k] + 0.5) * 0x1p-32));
  }
  return values;
}

Result<std::vector<BucketBytes>> SizesOf(const protocol::ExchangePlan& plan,
                                         uint32_t workers_a_host) {
  const bool sums_on_hosts = workers_a_host > 1 && CanSumOnHosts(plan);
  SegmentCoder push_coder(plan.workers, workers_a_host), pull_coder(1, 1);
  std::vector<BucketBytes> sizes_of_buckets;
  for (uint32_t b = 0; b < plan.buckets.size(); ++b) {
    const protocol::Bucket& bucket = plan.buckets[b];
    BucketBytes& bucket_bytes = sizes_of_buckets.emplace_back();
    const auto shared_scaler_bytes =
        static_cast<double>(bucket.shared_parts.size() * sizeof(float));
    if (!bucket.shared_parts.empty() && plan.shares_before(kLateRound)) {
      const protocol::Cell cell{protocol::Kind::kScale, b, 0};
      bucket_bytes.scale_bytes =
          WireBytes(ContributionHeader(plan, cell, false), shared_scaler_bytes);
      bucket_bytes.scaled_bytes = WireBytes(AnswerHeader(plan, cell), shared_scaler_bytes);
    }
    for (const protocol::Chunk& chunk : bucket.chunks) {
      // With the job setting `scaler: previous` the scalers travel with the codes.
      const auto scaler_bytes = static_cast<double>(chunk.num_scalers * sizeof(float));
      ByteCounts chunk_sizes{scaler_bytes, scaler_bytes, scaler_bytes};
      for (const codec::Segment& segment : chunk.segments) {
        const Result<ByteCounts> code_sizes =
            push_coder.SizesOfCode(*plan.codec_of[segment.tensor], segment.count, segment.column);
        if (!code_sizes.ok()) return code_sizes.status();
        chunk_sizes.up += code_sizes->up;
        chunk_sizes.of_host += code_sizes->of_host;
        if (plan.is_central) {  // The answer codes weights (or their changes), not a sum.
          const Result<ByteCounts> answer_sizes =
              pull_coder.SizesOfCode(*plan.pull_codec, segment.count, segment.column);
          if (!answer_sizes.ok()) return answer_sizes.status();
          chunk_sizes.down += answer_sizes->up;
        } else {
          chunk_sizes.down += code_sizes->down;
        }
      }
      const protocol::Cell cell{protocol::Kind::kPush, b, chunk.index};
      const bool has_digest = !bucket.shared_parts.empty();
      bucket_bytes.push_bytes.push_back(
          WireBytes(ContributionHeader(plan, cell, has_digest), chunk_sizes.up));
      if (sums_on_hosts) {
        bucket_bytes.host_push_bytes.push_back(
            WireBytes(HostSumHeader(plan, cell, has_digest, workers_a_host), chunk_sizes.of_host));
      }
      bucket_bytes.sum_bytes.push_back(WireBytes(AnswerHeader(plan, cell), chunk_sizes.down));
      if (plan.pulls_first) {
        bucket_bytes.pull_bytes += WireBytes(PullHeader(plan, cell), 0);
        bucket_bytes.pulled_bytes += bucket_bytes.sum_bytes.back();
      }
    }
  }
  return sizes_of_buckets;
}

RoundTotals TotalsOf(const std::vector<BucketBytes>& sizes) {
  RoundTotals totals;
  for (const BucketBytes& bucket : sizes) {
    totals.up += bucket.scale_bytes + bucket.pull_bytes;
    totals.down += bucket.scaled_bytes + bucket.pulled_bytes;
    for (const double bytes : bucket.push_bytes) totals.up += bytes;
    for (const double bytes : bucket.sum_bytes) totals.down += bytes;
  }
  return totals;
}

RoundTotals TotalsOfHost(const std::vector<BucketBytes>& sizes, uint32_t workers_a_host,
                         bool host_sum) {
  const RoundTotals of_worker = TotalsOf(sizes);
  RoundTotals totals{workers_a_host * of_worker.up, workers_a_host * of_worker.down};
  for (const BucketBytes& bucket : sizes) {
    for (size_t c = 0; host_sum && c < bucket.push_bytes.size(); ++c) {
      totals.up += bucket.host_push_bytes[c] - workers_a_host * bucket.push_bytes[c];
      totals.down -= (workers_a_host - 1) * bucket.sum_bytes[c];
    }
  }
  return totals;
}

}  // namespace tern::tools
