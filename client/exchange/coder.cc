#include "client/exchange/coder.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/protocol/rounds/cells.h"

namespace tern::client {
namespace {

// Overwrites the scalers of the bucket's shared parts; `scalers` has one for each of them.
void SetScalers(const protocol::Bucket& bucket, const std::vector<float>& scalers,
                GradientCoder::Prepared* prepared) {
  for (size_t i = 0; i < bucket.shared.size(); ++i)
    (*prepared)[bucket.shared[i] - bucket.first_part].scaler = scalers[i];
}

}  // namespace

Coder::Coder(const setup::Setup& setup, std::unique_ptr<GradientCoder> codes, Port& port,
             Events& events, Progress& progress)
    : setup_(setup),
      codes_(std::move(codes)),
      port_(port),
      events_(events),
      progress_(progress),
      keeps_(HasCodecMemory(setup)) {
  thread_ = Thread("coder", [this] { Run(); });
}

Coder::~Coder() {
  work_.Close();
  thread_.Join();
}

void Coder::Push(uint64_t round, uint32_t bucket, const float* arena, bool wants_weights) {
  Ready ready{{round, bucket, arena}, wants_weights, {}};
  const bool shared = !setup_.plan.buckets[bucket].shared.empty();
  if (shared && !setup_.plan.shares_before(round)) ready.scalers = scalers_before_(round, bucket);
  if (observer_ != nullptr) ready.show_as = observer_->StepToObserve();
  work_.Push(std::move(ready));
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
  work_.Push(ForgetAll{&done});
  done.get_future().wait();
}

void Coder::Finish() {
  std::promise<Status> done;
  work_.Push(UseKept{nullptr, &done});
  done.get_future().wait();
}

Status Coder::VisitMemories(const std::function<void(SavedState)>& use) {
  std::promise<Status> done;
  work_.Push(UseKept{&use, &done});
  return done.get_future().get();
}

void Coder::Run() {
  while (TakeWork()) {
    if (wanted_.has_value() && scaled_.empty() && ready_.empty()) {
      const UseKept wanted = *std::exchange(wanted_, std::nullopt);
      wanted.done->set_value(wanted.use == nullptr ? Ok() : codes_->VisitMemories(*wanted.use));
      continue;
    }
    TimeScope time(progress_.encode);
    Status status;
    if (!scaled_.empty()) {
      Answer answer = std::move(scaled_.front());
      scaled_.pop_front();
      status = OnScaled(std::move(answer));
    } else if (!ready_.empty()) {
      Ready ready = std::move(ready_.front());
      ready_.pop_front();
      status = Prepare(std::move(ready));
    }
    if (!status.ok()) events_.Push(Ended{status});
  }
}

bool Coder::TakeWork() {
  const bool idle = ready_.empty() && scaled_.empty() && !wanted_.has_value();
  for (auto work = idle ? work_.Pop() : work_.TryPop(); work; work = work_.TryPop()) {
    if (auto* ready = std::get_if<Ready>(&*work)) {
      ready_.push_back(std::move(*ready));
    } else if (const auto* forget = std::get_if<ForgetAll>(&*work)) {
      OnForgetAll(*forget);
    } else if (const auto* use = std::get_if<UseKept>(&*work)) {
      wanted_ = *use;
    } else {
      scaled_.push_back(std::move(std::get<Answer>(*work)));
    }
  }
  return !work_.drained() || !ready_.empty() || !scaled_.empty() || wanted_.has_value();
}

void Coder::OnForgetAll(const ForgetAll& forget) {
  ready_.clear();
  scaled_.clear();
  waiting_.clear();
  early_.clear();
  if (const Status forgot = codes_->Forget(); !forgot.ok()) events_.Push(Ended{forgot});
  forget.done->set_value();
}

Status Coder::Prepare(Ready ready) {
  const auto [round, bucket_index, arena] = ready.values;
  const protocol::Bucket& bucket = setup_.plan.buckets[bucket_index];
  Result<GradientCoder::Prepared> prepared = codes_->Prepare(ready.values);
  if (!prepared.ok()) return prepared.status();
  Waiting waiting{std::move(ready), std::move(*prepared), {}};
  if (bucket.shared.empty()) return EncodeAndPush(std::move(waiting), 0);
  for (uint32_t p : bucket.shared)
    waiting.own.push_back(waiting.prepared[p - bucket.first_part].scaler);
  if (!setup_.plan.shares_before(round)) return EncodeWithEarlierScalers(std::move(waiting));
  DropRoundsBefore(round);
  if (const auto early = early_.find({round, bucket_index}); early != early_.end())
    return EncodeWithSharedScalers(early->second, std::move(waiting));
  Bytes own = protocol::EncodeScalers(waiting.own);
  waiting_[{round, bucket_index}] = std::move(waiting);
  port_.Contribute({protocol::Kind::kScale, bucket_index, 0},
                   protocol::InRound{round, std::move(own)});
  return Ok();
}

Status Coder::EncodeWithEarlierScalers(Waiting waiting) {
  SetScalers(setup_.plan.buckets[waiting.ready.values.bucket], waiting.ready.scalers,
             &waiting.prepared);
  const Result<uint64_t> clamped =
      codes_->CountClamped(waiting.ready.values, waiting.prepared, waiting.own);
  if (!clamped.ok()) return clamped.status();
  progress_.clamped.Add(*clamped);
  const uint64_t digest = Digest(protocol::EncodeScalers(waiting.ready.scalers).span());
  return EncodeAndPush(std::move(waiting), digest);
}

Status Coder::OnScaled(Answer answer) {
  const std::pair key{answer.outcome.of_round().round(), answer.cell.bucket};
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    early_[key] = std::move(answer);
    return Ok();
  }
  Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  return EncodeWithSharedScalers(answer, std::move(waiting));
}

// Drops scalers and waiting buckets of earlier rounds. A late worker skips the rounds that closed
// without it, so it may never encode their buckets.
void Coder::DropRoundsBefore(uint64_t round) {
  waiting_.erase(waiting_.begin(), waiting_.lower_bound({round - std::min<uint64_t>(round, 2), 0}));
  early_.erase(early_.begin(), early_.lower_bound({round, 0}));
}

Status Coder::EncodeWithSharedScalers(const Answer& scaled, Waiting waiting) {
  const protocol::Bucket& bucket = setup_.plan.buckets[scaled.cell.bucket];
  const Result<std::vector<float>> scalers =
      protocol::ParseScalers(scaled.payload, bucket.shared.size());
  if (!scalers.ok()) return scalers.status().Within("shared scalers from the server");
  SetScalers(bucket, *scalers, &waiting.prepared);
  return EncodeAndPush(std::move(waiting), Digest(scaled.payload.span()));
}

protocol::Contribution Coder::MakeContribution(const Ready& of, uint64_t digest,
                                               Bytes payload) const {
  if (setup_.plan.rounds) return protocol::InRound{of.values.round, std::move(payload), digest};
  return protocol::AtClock{of.values.round, std::move(payload), of.wants_weights};
}

Status Coder::EncodeAndPush(Waiting waiting, uint64_t digest) {
  const GradientCoder::Values& values = waiting.ready.values;
  TERN_RETURN_IF_ERROR(codes_->PrepareMemoryCodecs(values, &waiting.prepared));
  Observer::Pushed shown{waiting.ready.show_as, values.bucket, {}, {}, {}};
  if (shown.step != 0) {
    Result<std::vector<float>> copy = codes_->Copy(values);
    if (!copy.ok()) return copy.status();
    shown.values = std::move(*copy);
  }
  for (const protocol::Chunk& chunk : setup_.plan.buckets[values.bucket].chunks) {
    const std::span<const float> before =
        chunk.scalers == 0 ? std::span<const float>() : waiting.own;
    const Result<Bytes> payload = codes_->Encode(values, chunk, waiting.prepared, before);
    if (!payload.ok()) return payload.status();
    progress_.push_bytes.Add(payload->size());
    if (shown.step != 0) shown.codes.push_back(*payload);
    port_.Contribute({protocol::Kind::kPush, values.bucket, chunk.index},
                     MakeContribution(waiting.ready, digest, *payload));
  }
  if (shown.step == 0) return Ok();
  for (const codec::Prepared& prepared : waiting.prepared) shown.scalers.push_back(prepared.scaler);
  observer_->Show(std::move(shown));
  return Ok();
}

}  // namespace tern::client
