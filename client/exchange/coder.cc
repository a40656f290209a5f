#include "client/exchange/coder.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/protocol/rounds/cells.h"

namespace tern::client {
namespace {

// Overwrites the scalers of those parts of the bucket whose scalers the workers share; `scalers`
// has one for each of them. A part is the range that has one scaler.
void SetScalers(const protocol::Bucket& bucket, const std::vector<float>& scalers,
                GradientCoder::Prepared* prepared) {
  for (size_t i = 0; i < bucket.shared.size(); ++i)
    (*prepared)[bucket.shared[i] - bucket.first_part].scaler = scalers[i];
}

}  // namespace

Coder::Coder(const setup::Setup& setup, std::unique_ptr<GradientCoder> gradient_coder, Port& port,
             Events& events, Progress& progress)
    : setup_(setup),
      gradient_coder_(std::move(gradient_coder)),
      port_(port),
      events_(events),
      progress_(progress),
      has_memories_(HasCodecMemory(setup)) {
  thread_ = Thread("coder", [this] { Run(); });
}

Coder::~Coder() {
  work_.Close();
  thread_.Join();
}

void Coder::Push(uint64_t round, uint32_t bucket, const float* arena, bool wants_weights) {
  ReadyBucket ready_bucket{{round, bucket, arena}, wants_weights, {}};
  const bool has_shared_scalers = !setup_.plan.buckets[bucket].shared.empty();
  if (has_shared_scalers && !setup_.plan.shares_before(round))
    ready_bucket.scalers = earlier_scalers_(round, bucket);
  if (observer_ != nullptr) ready_bucket.shown_step = observer_->StepToObserve();
  work_.Push(std::move(ready_bucket));
}

void Coder::Skip(uint64_t round) {
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    const uint32_t b = bucket.chunks.front().bucket;
    if (!bucket.shared.empty() && setup_.plan.shares_before(round))
      port_.Contribute({protocol::Kind::kScale, b, 0}, protocol::Skip{round});
    for (const protocol::Chunk& chunk : bucket.chunks)
      port_.Contribute({protocol::Kind::kPush, b, chunk.index}, protocol::Skip{round});
  }
}

void Coder::Part(uint64_t clock) {
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks)
      port_.Contribute({protocol::Kind::kPush, chunk.bucket, chunk.index},
                       protocol::Parting{clock});
  }
}

void Coder::Forget() {
  std::promise<void> done;
  work_.Push(ForgetRequest{&done});
  done.get_future().wait();
}

void Coder::Finish() {
  std::promise<Status> done;
  work_.Push(VisitRequest{nullptr, &done});
  done.get_future().wait();
}

Status Coder::VisitMemories(const std::function<void(SavedState)>& use) {
  std::promise<Status> done;
  work_.Push(VisitRequest{&use, &done});
  return done.get_future().get();
}

void Coder::Run() {
  while (TakeWork()) {
    if (pending_visit_.has_value() && scaler_answers_.empty() && ready_buckets_.empty()) {
      const VisitRequest visit = *std::exchange(pending_visit_, std::nullopt);
      visit.done->set_value(visit.use == nullptr ? Ok()
                                                 : gradient_coder_->VisitMemories(*visit.use));
      continue;
    }
    TimeScope time(progress_.encode);
    Status status;
    if (!scaler_answers_.empty()) {
      Answer answer = std::move(scaler_answers_.front());
      scaler_answers_.pop_front();
      status = OnScaled(std::move(answer));
    } else if (!ready_buckets_.empty()) {
      ReadyBucket ready = std::move(ready_buckets_.front());
      ready_buckets_.pop_front();
      status = Prepare(std::move(ready));
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
    } else if (const auto* forget = std::get_if<ForgetRequest>(&*work)) {
      OnForget(*forget);
    } else if (const auto* visit = std::get_if<VisitRequest>(&*work)) {
      pending_visit_ = *visit;
    } else {
      scaler_answers_.push_back(std::move(std::get<Answer>(*work)));
    }
  }
  return !work_.drained() || !ready_buckets_.empty() || !scaler_answers_.empty() ||
         pending_visit_.has_value();
}

void Coder::OnForget(const ForgetRequest& forget) {
  ready_buckets_.clear();
  scaler_answers_.clear();
  waiting_buckets_.clear();
  early_scalers_.clear();
  if (const Status forgot = gradient_coder_->Forget(); !forgot.ok()) events_.Push(Ended{forgot});
  forget.done->set_value();
}

Status Coder::Prepare(ReadyBucket ready) {
  const auto [round, bucket_index, arena] = ready.values;
  const protocol::Bucket& bucket = setup_.plan.buckets[bucket_index];
  Result<GradientCoder::Prepared> prepared = gradient_coder_->Prepare(ready.values);
  if (!prepared.ok()) return prepared.status();
  WaitingBucket waiting{std::move(ready), std::move(*prepared), {}};
  if (bucket.shared.empty()) return EncodeAndPush(std::move(waiting), 0);
  for (uint32_t p : bucket.shared)
    waiting.own_scalers.push_back(waiting.prepared[p - bucket.first_part].scaler);
  if (!setup_.plan.shares_before(round)) return EncodeWithEarlierScalers(std::move(waiting));
  DropRoundsBefore(round);
  if (const auto early_answer = early_scalers_.find({round, bucket_index});
      early_answer != early_scalers_.end())
    return EncodeWithSharedScalers(early_answer->second, std::move(waiting));
  Bytes encoded_scalers = protocol::EncodeScalers(waiting.own_scalers);
  waiting_buckets_[{round, bucket_index}] = std::move(waiting);
  port_.Contribute({protocol::Kind::kScale, bucket_index, 0},
                   protocol::InRound{round, std::move(encoded_scalers)});
  return Ok();
}

Status Coder::EncodeWithEarlierScalers(WaitingBucket waiting) {
  SetScalers(setup_.plan.buckets[waiting.ready.values.bucket], waiting.ready.scalers,
             &waiting.prepared);
  const Result<uint64_t> num_clamped =
      gradient_coder_->CountClamped(waiting.ready.values, waiting.prepared, waiting.own_scalers);
  if (!num_clamped.ok()) return num_clamped.status();
  progress_.clamped.Add(*num_clamped);
  const uint64_t digest = Digest(protocol::EncodeScalers(waiting.ready.scalers).span());
  return EncodeAndPush(std::move(waiting), digest);
}

Status Coder::OnScaled(Answer answer) {
  const std::pair key{answer.outcome.of_round().round(), answer.cell.bucket};
  const auto found = waiting_buckets_.find(key);
  if (found == waiting_buckets_.end()) {
    early_scalers_[key] = std::move(answer);
    return Ok();
  }
  WaitingBucket waiting = std::move(found->second);
  waiting_buckets_.erase(found);
  return EncodeWithSharedScalers(answer, std::move(waiting));
}

// Drops scalers of earlier rounds, and waiting buckets of rounds before the previous two. A late
// worker skips the rounds that closed without it, so it may never encode their buckets.
void Coder::DropRoundsBefore(uint64_t round) {
  waiting_buckets_.erase(waiting_buckets_.begin(),
                         waiting_buckets_.lower_bound({round - std::min<uint64_t>(round, 2), 0}));
  early_scalers_.erase(early_scalers_.begin(), early_scalers_.lower_bound({round, 0}));
}

Status Coder::EncodeWithSharedScalers(const Answer& answer, WaitingBucket waiting) {
  const protocol::Bucket& bucket = setup_.plan.buckets[answer.cell.bucket];
  const Result<std::vector<float>> scalers =
      protocol::ParseScalers(answer.payload, bucket.shared.size());
  if (!scalers.ok()) return scalers.status().Within("shared scalers from the server");
  SetScalers(bucket, *scalers, &waiting.prepared);
  return EncodeAndPush(std::move(waiting), Digest(answer.payload.span()));
}

protocol::Contribution Coder::MakeContribution(const ReadyBucket& ready_bucket, uint64_t digest,
                                               Bytes payload) const {
  if (setup_.plan.rounds)
    return protocol::InRound{ready_bucket.values.round, std::move(payload), digest};
  return protocol::AtClock{ready_bucket.values.round, std::move(payload),
                           ready_bucket.wants_weights};
}

Status Coder::EncodeAndPush(WaitingBucket waiting, uint64_t digest) {
  const GradientCoder::Values& values = waiting.ready.values;
  TERN_RETURN_IF_ERROR(gradient_coder_->PrepareMemoryCodecs(values, &waiting.prepared));
  Observer::Pushed pushed{waiting.ready.shown_step, values.bucket, {}, {}, {}};
  if (pushed.step != 0) {
    Result<std::vector<float>> values_copy = gradient_coder_->Copy(values);
    if (!values_copy.ok()) return values_copy.status();
    pushed.values = std::move(*values_copy);
  }
  for (const protocol::Chunk& chunk : setup_.plan.buckets[values.bucket].chunks) {
    const std::span<const float> leading_scalers =
        chunk.scalers == 0 ? std::span<const float>() : waiting.own_scalers;
    const Result<Bytes> payload =
        gradient_coder_->Encode(values, chunk, waiting.prepared, leading_scalers);
    if (!payload.ok()) return payload.status();
    progress_.push_bytes.Add(payload->size());
    if (pushed.step != 0) pushed.codes.push_back(*payload);
    port_.Contribute({protocol::Kind::kPush, values.bucket, chunk.index},
                     MakeContribution(waiting.ready, digest, *payload));
  }
  if (pushed.step == 0) return Ok();
  for (const codec::Prepared& prepared : waiting.prepared)
    pushed.scalers.push_back(prepared.scaler);
  observer_->Show(std::move(pushed));
  return Ok();
}

}  // namespace tern::client
