#include "tools/forecast/codec_speed.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/exchange/host_coder.h"
#include "client/train/apply.h"
#include "common/base/clock.h"
#include "common/protocol/rounds/cells.h"
#include "tools/forecast/sizes.h"

namespace tern::tools {

namespace {

constexpr uint32_t kWorkers = 2;
constexpr Time kMeasureTime = std::chrono::milliseconds(300);
constexpr int kMaxRounds = 15, kMinRounds = 3;

// Returns the setup of the same job with two workers, with localized parameters (every worker holds
// the weights and the optimizer), and with `codec` for every tensor.
Result<setup::Setup> MakeCodecSetup(const setup::Setup& job_setup, const std::string& codec) {
  setup::Setup setup = job_setup;
  setup.job.mutable_workers()->set_count(kWorkers);
  // The default algorithm exchanges gradients in rounds.
  setup.job.mutable_train()->clear_algorithm();
  setup.job.mutable_train()->set_parameters(pb::Train::localized);
  setup.job.mutable_exchange()->set_codec(codec);
  setup.job.mutable_exchange()->clear_rules();
  // With scalers (multipliers of the codes) that the workers of a round share, the codec does the
  // same work without the scalers of an earlier round.
  if (setup.job.exchange().scaler() == pb::Exchange::previous)
    setup.job.mutable_exchange()->set_scaler(pb::Exchange::shared);
  std::vector<protocol::TensorInfo> tensors;
  for (const models::Parameter& p : setup.table.parameters)
    tensors.push_back({p.name, p.count, p.is_bias ? p.count : p.fan_in});
  Result<protocol::ExchangePlan> plan = protocol::ExchangePlan::Make(setup.job, tensors);
  if (!plan.ok()) return plan.status();
  setup.plan = std::move(*plan);
  return setup;
}

// Adds the seconds between its construction and its destruction to `*total_s`.
class ScopedTimer {
 public:
  explicit ScopedTimer(double* total_s) : total_s_(total_s), begin_(Now()) {}
  ~ScopedTimer() { *total_s_ += Seconds(Now() - begin_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double* const total_s_;
  const Time begin_;
};

// Times the rounds of two workers and their servers with one codec.
class CodecBenchmark {
  using BucketParams = client::GradientCoder::BucketParams;
  using BucketValues = client::GradientCoder::BucketValues;

 public:
  explicit CodecBenchmark(const setup::Setup& setup) : setup_(setup), sums_(setup) {
    const std::vector<float> gaussian_values =
        GaussianValues(0, std::min<uint64_t>(1 << 20, NumElements()));
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      coders_.push_back(std::make_unique<client::HostCoder>(setup, rank));
      std::vector<float>& gradient = gradients_.emplace_back(NumElements());
      for (size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = gaussian_values[(i + 7919 * size_t{rank}) % gaussian_values.size()];
    }
    for (const protocol::Bucket& bucket : setup.plan.buckets) {
      for (const protocol::Chunk& chunk : bucket.chunks)
        cells_.push_back(protocol::MakePushCell(setup.plan, chunk));
    }
  }

  // Runs rounds. Returns the median seconds per element of each phase (prepare, encode, ...).
  Result<CodecSpeed> MeasureSpeed(client::Replica& replica) {
    client::RoundApplier applier(setup_, /*steps=*/kMaxRounds + 1, replica, sums_);
    std::vector<CodecSpeed> seconds_of_rounds;
    const Time deadline = Now() + kMeasureTime;
    // The first round allocates memory and fills caches, so it is not counted.
    for (int r = 0; r <= kMinRounds || (r <= kMaxRounds && Now() < deadline); ++r) {
      CodecSpeed round_seconds;
      TERN_RETURN_IF_ERROR(ExchangeGradients(static_cast<uint64_t>(r + 1), &round_seconds));
      TERN_RETURN_IF_ERROR(DecodeAndApply(static_cast<uint64_t>(r + 1), applier, &round_seconds));
      if (r > 0) seconds_of_rounds.push_back(round_seconds);
    }
    CodecSpeed speed;
    for (double CodecSpeed::*phase :
         {&CodecSpeed::prepare_s, &CodecSpeed::encode_s, &CodecSpeed::add_s, &CodecSpeed::close_s,
          &CodecSpeed::decode_s, &CodecSpeed::apply_s}) {
      std::nth_element(seconds_of_rounds.begin(),
                       seconds_of_rounds.begin() + static_cast<long>(seconds_of_rounds.size() / 2),
                       seconds_of_rounds.end(), [&](const CodecSpeed& a, const CodecSpeed& b) {
                         return a.*phase < b.*phase;
                       });
      speed.*phase = seconds_of_rounds[seconds_of_rounds.size() / 2].*phase /
                     static_cast<double>(NumElements());
    }
    return speed;
  }

 private:
  uint64_t NumElements() const { return setup_.plan.parameters(); }

  Status ExchangeGradients(uint64_t round, CodecSpeed* seconds) {
    size_t cell_index = 0;
    for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
      const protocol::Bucket& bucket = setup_.plan.buckets[b];
      std::vector<float> scalers(bucket.shared_parts.size());
      std::vector<BucketParams> params_of_rank;
      for (uint32_t rank = 0; rank < kWorkers; ++rank) {
        double prepare_s = 0;
        Result<BucketParams> params = [&] {
          ScopedTimer timer(&prepare_s);
          return Prepare(ValuesOf(rank, round, b), *coders_[rank]);
        }();
        if (!params.ok()) return params.status();
        seconds->prepare_s += prepare_s / kWorkers;
        for (size_t i = 0; i < scalers.size(); ++i)
          scalers[i] =
              std::max(scalers[i], (*params)[bucket.shared_parts[i] - bucket.first_part].scaler);
        params_of_rank.push_back(*std::move(params));
      }
      if (!scalers.empty()) {
        pb::Outcome outcome;
        outcome.mutable_of_round()->set_round(round);
        sums_.Store({{protocol::Kind::kScale, b, 0}, outcome, protocol::EncodeScalers(scalers)});
        for (BucketParams& params : params_of_rank)
          client::SetSharedScalers(bucket, scalers, &params);
      }
      for (const protocol::Chunk& chunk : bucket.chunks)
        TERN_RETURN_IF_ERROR(
            EncodeAndSum(chunk, cells_[cell_index++], round, params_of_rank, seconds));
    }
    return Ok();
  }

  // What a worker computes of a bucket before it encodes it.
  static Result<BucketParams> Prepare(const BucketValues& values, client::HostCoder& coder) {
    Result<BucketParams> params = coder.Prepare(values);
    if (params.ok()) TERN_RETURN_IF_ERROR(coder.PrepareMemoryCodecs(values, &*params));
    return params;
  }
  BucketValues ValuesOf(uint32_t rank, uint64_t round, uint32_t bucket) const {
    return {round, bucket, gradients_[rank].data()};
  }

  Status EncodeAndSum(const protocol::Chunk& chunk, const protocol::CellSpec& cell, uint64_t round,
                      const std::vector<BucketParams>& params_of_rank, CodecSpeed* seconds) {
    double encode_s = 0, add_s = 0;
    std::vector<Bytes> pushes;
    for (uint32_t rank = 0; rank < kWorkers; ++rank) {
      ScopedTimer timer(&encode_s);
      Result<Bytes> push = coders_[rank]->Encode(ValuesOf(rank, round, chunk.bucket), chunk,
                                                 params_of_rank[rank], {});
      if (!push.ok()) return push.status();
      pushes.push_back(*std::move(push));
    }
    std::unique_ptr<protocol::CellSum> sum;
    {
      ScopedTimer timer(&add_s);
      sum = cell.open(round);
      for (uint32_t rank = 0; rank < kWorkers; ++rank)
        TERN_RETURN_IF_ERROR(sum->Add(rank, pushes[rank]));
    }
    seconds->encode_s += encode_s / kWorkers;
    seconds->add_s += add_s / kWorkers;
    pb::Outcome outcome;
    outcome.mutable_of_round()->set_round(round);
    outcome.mutable_of_round()->set_contributors(kWorkers);
    Bytes answer;
    {
      ScopedTimer timer(&seconds->close_s);
      answer = sum->Close();
      sum.reset();
    }
    sums_.Store({cell.cell, outcome, std::move(answer)});
    return Ok();
  }

  Status Decode(uint64_t round) {
    return sums_.Decode(round, [this](uint32_t, uint64_t first, std::span<const float> values) {
      std::copy(values.begin(), values.end(), decoded_sums_.begin() + static_cast<long>(first));
    });
  }

  Status DecodeAndApply(uint64_t round, client::RoundApplier& applier, CodecSpeed* seconds) {
    decoded_sums_.resize(NumElements());
    {
      ScopedTimer timer(&seconds->decode_s);
      TERN_RETURN_IF_ERROR(Decode(round));
    }
    {
      ScopedTimer timer(&seconds->apply_s);
      // The worker of a client's job only decodes; the program has the weights.
      TERN_RETURN_IF_ERROR(setup::IsClientJob(setup_.job) ? Decode(round)
                                                          : applier.ApplyRound(round));
    }
    sums_.DropRoundsUpTo(round);
    return Ok();
  }

  const setup::Setup& setup_;
  client::Sums sums_;  // The answers of the servers.
  // By rank.
  std::vector<std::unique_ptr<client::HostCoder>> coders_;
  std::vector<std::vector<float>> gradients_;
  std::vector<protocol::CellSpec> cells_;  // For each chunk, how the servers add up its pushes.
  std::vector<float> decoded_sums_;
};

}  // namespace

Status MeasureCodec(const setup::Setup& setup, const std::string& name, Profile* profile) {
  const Result<setup::Setup> codec_setup = MakeCodecSetup(setup, name);
  if (!codec_setup.ok()) return codec_setup.status();
  const std::string codec_name(codec_setup->plan.codec_of[0]->name());
  if (profile->codecs.contains(codec_name)) return Ok();
  const auto replica = client::Replica::Make(*codec_setup);
  if (!replica.ok()) return replica.status();
  const Result<CodecSpeed> speed = CodecBenchmark(*codec_setup).MeasureSpeed(**replica);
  if (!speed.ok()) return speed.status().Within("measuring " + name);
  profile->codecs[codec_name] = *speed;
  return Ok();
}

Status MeasureUpdate(const setup::Setup& setup, Profile* profile) {
  const auto replica = client::Replica::Make(setup);
  if (!replica.ok()) return replica.status();
  client::Replica& worker_state = **replica;
  const auto& plan = setup.plan;
  Floats copy_target(plan.parameters());
  // The minimum of four runs is the one that other load on the machine disturbs least.
  double min_update_s = 1e9, min_copy_s = 1e9;
  for (uint64_t i = 1; i <= 4; ++i) {
    double update_s = 0, copy_s = 0;
    {
      ScopedTimer timer(&update_s);
      for (size_t t = 0; t < plan.tensor_count.size(); ++t) {
        const uint64_t first = plan.tensor_begin[t];
        worker_state.optimizer().Update(worker_state.parameters() + first,
                                        worker_state.gradients() + first, first,
                                        plan.tensor_count[t], {1e-6, i}, {});
        worker_state.UpdateMovingAverage(first, plan.tensor_count[t], i);
      }
    }
    {
      ScopedTimer timer(&copy_s);
      std::copy_n(worker_state.parameters(), plan.parameters(), copy_target.data());
    }
    min_update_s = std::min(min_update_s, update_s);
    min_copy_s = std::min(min_copy_s, copy_s);
  }
  profile->update_s = min_update_s / static_cast<double>(plan.parameters());
  profile->copy_s = min_copy_s / static_cast<double>(plan.parameters());
  return Ok();
}

}  // namespace tern::tools
