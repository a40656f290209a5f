#include "client/exchange/coder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/trace.h"
#include "common/protocol/rounds/cells.h"
#include "setup/own_state.h"

namespace tern::client {
namespace {

// The magnitude at which a codec clamps the values of a part; infinity if it does not. The largest
// code of codecs with shared scalers stands for the scaler.
float LimitOf(const codec::Codec& codec, const codec::EncodeParams& params) {
  constexpr float kNone = std::numeric_limits<float>::infinity();
  if (codec.rotates()) return kNone;  // it clamps rotated values
  if (codec.shares_scaler()) return std::min(params.clip, params.scaler);
  return params.clip > 0 ? params.clip : kNone;
}

}  // namespace

Coder::Coder(const setup::Setup& setup, std::unique_ptr<GradientCoder> gradient_coder, Port& port,
             Events& events, Progress& progress)
    : setup_(setup),
      gradient_coder_(std::move(gradient_coder)),
      port_(port),
      events_(events),
      progress_(progress),
      has_memories_(setup::HasCodecMemory(setup)) {
  thread_ = Thread("coder", [this] { Run(); });
}

Coder::~Coder() {
  work_.Close();
  thread_.Join();
}

void Coder::Push(uint64_t round, uint32_t bucket, const float* arena, bool wants_weights) {
  const TraceSpan span("bucket ready", {.round = round, .bucket = static_cast<int32_t>(bucket)});
  ReadyBucket ready_bucket{{round, bucket, arena}, wants_weights, {}};
  const bool has_shared_scalers = !setup_.plan.buckets[bucket].shared_parts.empty();
  if (has_shared_scalers && !setup_.plan.shares_before(round))
    ready_bucket.scalers = get_earlier_scalers_(round, bucket);
  if (observer_ != nullptr) ready_bucket.observed_step = observer_->StepToObserve();
  if (ready_bucket.observed_step != 0 && setup_.plan.has_rounds && !setup_.plan.is_central)
    observed_steps_[round] = ready_bucket.observed_step;
  Submit(std::move(ready_bucket));
}

void Coder::ShowMeans(uint64_t round, const Sums& sums) {
  const auto observed = observed_steps_.extract(round);
  if (observed.empty()) return;
  for (uint32_t b = 0; b < setup_.plan.buckets.size(); ++b) {
    if (!sums.HasAnswers(round, b)) continue;
    const protocol::Bucket& bucket = setup_.plan.buckets[b];
    std::vector<float> mean(bucket.count);
    const Status status =
        sums.Decode(round, b, [&](uint32_t, uint64_t first, std::span<const float> values) {
          std::copy(values.begin(), values.end(), mean.begin() + (first - bucket.begin));
        });
    // Cannot fail, because the same answers have been applied.
    CHECK(status.ok()) << status.message();
    observer_->OnMean(observed.mapped(), b, std::move(mean));
  }
}

void Coder::SkipRound(uint64_t round) {
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    const uint32_t b = bucket.chunks.front().bucket;
    if (!bucket.shared_parts.empty() && setup_.plan.shares_before(round))
      port_.Contribute({protocol::Kind::kScale, b, 0}, protocol::Skip{round});
    for (const protocol::Chunk& chunk : bucket.chunks)
      port_.Contribute({protocol::Kind::kPush, b, chunk.index}, protocol::Skip{round});
  }
}

void Coder::AnnounceParting(uint64_t clock) {
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks)
      port_.Contribute({protocol::Kind::kPush, chunk.bucket, chunk.index},
                       protocol::Parting{clock});
  }
}

void Coder::DropPushesAndMemories() {
  observed_steps_.clear();
  std::promise<void> completion;
  Submit(DropRequest{&completion});
  completion.get_future().wait();
}

void Coder::AwaitEncoding() {
  std::promise<Status> completion;
  Submit(VisitRequest{nullptr, &completion});
  completion.get_future().wait();
}

Status Coder::VisitMemories(const std::function<void(SavedState)>& use) {
  std::promise<Status> completion;
  Submit(VisitRequest{&use, &completion});
  return completion.get_future().get();
}

void Coder::Submit(Work work) {
  progress_.num_coder_items.fetch_add(1);
  work_.Push(std::move(work));
}

void Coder::Run() {
  const TraceThread trace_thread("coder");
  while (TakeWork()) {
    HitFailpoint(FailPlace::kThreadCoder);
    if (pending_visit_.has_value() && scaler_answers_.empty() && ready_buckets_.empty()) {
      const VisitRequest visit = *std::exchange(pending_visit_, std::nullopt);
      progress_.num_coded_items.fetch_add(1);
      visit.completion->set_value(
          visit.use == nullptr ? Ok() : gradient_coder_->VisitMemories(*visit.use));
      continue;
    }
    TimeScope time(progress_.encode_time);
    Status status;
    if (!scaler_answers_.empty()) {
      Answer answer = std::move(scaler_answers_.front());
      scaler_answers_.pop_front();
      status = OnScaled(std::move(answer));
      progress_.num_coded_items.fetch_add(1);
    } else if (!ready_buckets_.empty()) {
      ReadyBucket ready_bucket = std::move(ready_buckets_.front());
      ready_buckets_.pop_front();
      status = Prepare(std::move(ready_bucket));
      progress_.num_coded_items.fetch_add(1);
    }
    if (!status.ok()) events_.Push(Ended{status});
  }
}

bool Coder::TakeWork() {
  const bool is_idle =
      ready_buckets_.empty() && scaler_answers_.empty() && !pending_visit_.has_value();
  for (auto work = is_idle ? work_.Pop() : work_.TryPop(); work; work = work_.TryPop()) {
    if (auto* ready_bucket = std::get_if<ReadyBucket>(&*work)) {
      ready_buckets_.push_back(std::move(*ready_bucket));
    } else if (const auto* drop = std::get_if<DropRequest>(&*work)) {
      OnDropRequest(*drop);
    } else if (const auto* visit = std::get_if<VisitRequest>(&*work)) {
      pending_visit_ = *visit;
    } else {
      scaler_answers_.push_back(std::move(std::get<Answer>(*work)));
    }
  }
  return !work_.drained() || !ready_buckets_.empty() || !scaler_answers_.empty() ||
         pending_visit_.has_value();
}

void Coder::OnDropRequest(const DropRequest& drop) {
  progress_.num_coded_items.fetch_add(1 + ready_buckets_.size() + scaler_answers_.size());
  ready_buckets_.clear();
  scaler_answers_.clear();
  waiting_buckets_.clear();
  early_scalers_.clear();
  if (const Status cleared = gradient_coder_->ClearMemories(); !cleared.ok())
    events_.Push(Ended{cleared});
  drop.completion->set_value();
}

Result<GradientCoder::BucketParams> Coder::PrepareParams(
    const GradientCoder::BucketValues& values) {
  const TraceSpan span("statistics",
                       {.round = values.round, .bucket = static_cast<int32_t>(values.bucket)});
  return gradient_coder_->Prepare(values);
}

Status Coder::Prepare(ReadyBucket ready_bucket) {
  const auto [round, bucket_index, arena] = ready_bucket.values;
  const protocol::Bucket& bucket = setup_.plan.buckets[bucket_index];
  Result<GradientCoder::BucketParams> params = PrepareParams(ready_bucket.values);
  if (!params.ok()) return params.status();
  WaitingBucket waiting_bucket{std::move(ready_bucket), std::move(*params), {}};
  if (bucket.shared_parts.empty()) return EncodeAndPush(std::move(waiting_bucket), 0);
  for (uint32_t p : bucket.shared_parts)
    waiting_bucket.own_scalers.push_back(waiting_bucket.params[p - bucket.first_part].scaler);
  if (!setup_.plan.shares_before(round)) return EncodeWithEarlierScalers(std::move(waiting_bucket));
  DropRoundsBefore(round);
  if (const auto early_answer = early_scalers_.find({round, bucket_index});
      early_answer != early_scalers_.end())
    return EncodeWithSharedScalers(early_answer->second, std::move(waiting_bucket));
  Bytes encoded_scalers = protocol::EncodeScalers(waiting_bucket.own_scalers);
  waiting_buckets_[{round, bucket_index}] = std::move(waiting_bucket);
  port_.Contribute({protocol::Kind::kScale, bucket_index, 0},
                   protocol::InRound{round, std::move(encoded_scalers)});
  return Ok();
}

Status Coder::EncodeWithEarlierScalers(WaitingBucket waiting_bucket) {
  SetSharedScalers(setup_.plan.buckets[waiting_bucket.ready_bucket.values.bucket],
                   waiting_bucket.ready_bucket.scalers, &waiting_bucket.params);
  const Result<uint64_t> num_clamped = gradient_coder_->CountClamped(
      waiting_bucket.ready_bucket.values, waiting_bucket.params, waiting_bucket.own_scalers);
  if (!num_clamped.ok()) return num_clamped.status();
  progress_.num_clamped.Add(*num_clamped);
  const uint64_t digest =
      Digest(protocol::EncodeScalers(waiting_bucket.ready_bucket.scalers).span());
  return EncodeAndPush(std::move(waiting_bucket), digest);
}

Status Coder::OnScaled(Answer answer) {
  const std::pair key{answer.outcome.of_round().round(), answer.cell.bucket};
  const auto found = waiting_buckets_.find(key);
  if (found == waiting_buckets_.end()) {
    early_scalers_[key] = std::move(answer);
    return Ok();
  }
  WaitingBucket waiting_bucket = std::move(found->second);
  waiting_buckets_.erase(found);
  return EncodeWithSharedScalers(answer, std::move(waiting_bucket));
}

// Drops scalers of rounds before `round`, and waiting buckets of rounds before `round` - 2. A late
// worker skips the rounds that closed without it, so it may never encode the buckets of these
// rounds.
void Coder::DropRoundsBefore(uint64_t round) {
  waiting_buckets_.erase(waiting_buckets_.begin(),
                         waiting_buckets_.lower_bound({round - std::min<uint64_t>(round, 2), 0}));
  early_scalers_.erase(early_scalers_.begin(), early_scalers_.lower_bound({round, 0}));
}

Status Coder::EncodeWithSharedScalers(const Answer& answer, WaitingBucket waiting_bucket) {
  const protocol::Bucket& bucket = setup_.plan.buckets[answer.cell.bucket];
  const Result<std::vector<float>> scalers =
      protocol::ParseScalers(answer.payload, bucket.shared_parts.size(), setup_.plan.max_scaler);
  if (!scalers.ok()) return scalers.status().Within("shared scalers from the server");
  SetSharedScalers(bucket, *scalers, &waiting_bucket.params);
  return EncodeAndPush(std::move(waiting_bucket), Digest(answer.payload.span()));
}

protocol::Contribution Coder::MakeContribution(const ReadyBucket& ready_bucket, uint64_t digest,
                                               Bytes payload) const {
  if (setup_.plan.has_rounds)
    return protocol::InRound{ready_bucket.values.round, std::move(payload), digest};
  return protocol::AtClock{ready_bucket.values.round, std::move(payload),
                           ready_bucket.wants_weights};
}

Status Coder::EncodeAndPush(WaitingBucket waiting_bucket, uint64_t digest) {
  const GradientCoder::BucketValues& values = waiting_bucket.ready_bucket.values;
  const TraceSpan span("encode",
                       {.round = values.round, .bucket = static_cast<int32_t>(values.bucket)});
  TERN_RETURN_IF_ERROR(gradient_coder_->PrepareMemoryCodecs(values, &waiting_bucket.params));
  Observer::PushedBucket pushed_bucket{
      waiting_bucket.ready_bucket.observed_step, values.bucket, {}, {}, {}, {}};
  if (pushed_bucket.step != 0) {
    Result<std::vector<float>> values_copy = gradient_coder_->CopyToHost(values);
    if (!values_copy.ok()) return values_copy.status();
    pushed_bucket.values = std::move(*values_copy);
  }
  const protocol::Bucket& bucket = setup_.plan.buckets[values.bucket];
  for (const protocol::Chunk& chunk : bucket.chunks) {
    const std::span<const float> leading_scalers =
        chunk.num_scalers == 0 ? std::span<const float>() : waiting_bucket.own_scalers;
    const Result<Bytes> payload =
        gradient_coder_->Encode(values, chunk, waiting_bucket.params, leading_scalers);
    if (!payload.ok()) return payload.status();
    progress_.push_bytes.Add(payload->size());
    if (pushed_bucket.step != 0) pushed_bucket.codes.push_back(*payload);
    port_.Contribute({protocol::Kind::kPush, values.bucket, chunk.index},
                     MakeContribution(waiting_bucket.ready_bucket, digest, *payload));
  }
  if (pushed_bucket.step == 0) return Ok();
  for (size_t i = 0; i < waiting_bucket.params.size(); ++i) {
    const protocol::Part& part = setup_.plan.parts[bucket.first_part + i];
    pushed_bucket.scalers.push_back(waiting_bucket.params[i].scaler);
    pushed_bucket.limits.push_back(
        LimitOf(*setup_.plan.codec_of[part.tensor], waiting_bucket.params[i]));
  }
  observer_->OnPushedBucket(std::move(pushed_bucket));
  return Ok();
}

}  // namespace tern::client
