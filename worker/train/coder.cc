#include "worker/train/coder.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/config/algorithms.h"
#include "common/protocol/cells.h"
#include "kernels/stats.h"

namespace tern::train {

namespace {

std::string WhatIsPushed(const pb::Train& train) {
  switch (config::TraitsOf(train)->pushes()) {
    case pb::AlgorithmTraits::gradient:
      return "the gradient of ";
    case pb::AlgorithmTraits::parameters:
      return "parameter ";
    case pb::AlgorithmTraits::change:
      break;
  }
  return "the change of ";
}

}  // namespace

Coder::Coder(const setup::Setup& setup, uint32_t rank, Port& port, Events& events,
             Progress& progress)
    : setup_(setup), rank_(rank), port_(port), events_(events), progress_(progress) {
  for (size_t t = 0; t < setup.plan.codec_of.size(); ++t) {
    memories_.push_back(setup.plan.codec_of[t]->NewMemory(setup.plan.tensor_count[t]));
    if (memories_.back() != nullptr) compensated_.resize(setup.plan.parameters());
  }
  thread_ = Thread("coder", [this] { Run(); });
}

Coder::~Coder() {
  work_.Close();
  thread_.Join();
}

void Coder::Skip(uint64_t round) {
  protocol::Request skip;
  skip.skip = true;
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    const uint32_t b = bucket.chunks.front().bucket;
    if (!bucket.shared.empty())
      port_.Contribute({protocol::Kind::kScale, b, 0}, round, 0, {}, skip);
    for (const protocol::Chunk& chunk : bucket.chunks)
      port_.Contribute({protocol::Kind::kPush, b, chunk.index}, round, 0, {}, skip);
  }
}

void Coder::Forget() {
  std::promise<void> done;
  work_.Push(ForgetAll{&done});
  done.get_future().wait();
}

void Coder::Run() {
  while (Gather()) {
    TimeScope time(progress_.encode);
    if (!scaled_.empty()) {
      Answer answer = std::move(scaled_.front());
      scaled_.pop_front();
      OnScaled(std::move(answer));
    } else if (!ready_.empty()) {
      const Ready ready = ready_.front();
      ready_.pop_front();
      Prepare(ready);
    }
  }
}

bool Coder::Gather() {
  const bool idle = ready_.empty() && scaled_.empty();
  for (auto work = idle ? work_.Pop() : work_.TryPop(); work; work = work_.TryPop()) {
    if (const auto* ready = std::get_if<Ready>(&*work)) {
      ready_.push_back(*ready);
    } else if (const auto* forget = std::get_if<ForgetAll>(&*work)) {
      ForgetAllOf(*forget);
    } else {
      scaled_.push_back(std::move(std::get<Answer>(*work)));
    }
  }
  return !work_.drained() || !ready_.empty() || !scaled_.empty();
}

void Coder::ForgetAllOf(const ForgetAll& forget) {
  ready_.clear();
  scaled_.clear();
  waiting_.clear();
  early_.clear();
  for (const auto& memory : memories_) {
    if (memory != nullptr) memory->Forget();
  }
  LOG_IF(WARNING, !compensated_.empty())
      << "what the codecs kept of earlier gradients starts afresh";
  forget.done->set_value();
}

void Coder::Prepare(const Ready& ready) {
  const protocol::ExchangePlan& plan = setup_.plan;
  const protocol::Bucket& bucket = plan.buckets[ready.bucket];
  Waiting values{ready.arena, ready.request, {}};
  kernels::NoiseKey noise = NoiseOf(ready.round);
  for (uint32_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensors; ++t) {
    values.prepared.emplace_back();
    noise.tensor = t;
    // What an earlier round leaves out is known only when it has been coded.
    if (memories_[t] != nullptr) continue;
    if (!PrepareTensor(ready.arena, noise, &values.prepared.back())) return;
  }
  if (bucket.shared.empty()) return EncodeAndPush(ready.round, ready.bucket, std::move(values), 0);
  ForgetBefore(ready.round);
  if (const auto early = early_.find({ready.round, ready.bucket}); early != early_.end())
    return CodeWith(early->second, std::move(values));
  std::vector<float> scalers;
  for (uint32_t t : bucket.shared)
    scalers.push_back(values.prepared[t - bucket.first_tensor].scaler);
  waiting_[{ready.round, ready.bucket}] = std::move(values);
  port_.Contribute({protocol::Kind::kScale, ready.bucket, 0}, ready.round, 0,
                   protocol::EncodeScalers(scalers));
}

bool Coder::PrepareTensor(const float* arena, const kernels::NoiseKey& noise,
                          codec::Prepared* prepared) {
  const uint32_t t = noise.tensor;
  const std::span<const float> to_code = ToCode(arena, t);
  const kernels::Stats stats = kernels::ComputeStats(to_code.data(), to_code.size());
  if (!stats.finite) {
    events_.Push(Ended{Status(Code::kBadData,
                              Cat(WhatIsPushed(setup_.job.train()), setup_.table.parameters[t].name,
                                  " is not finite at round ", noise.round, " on worker ", rank_,
                                  "; lower the learning rate"))});
    return false;
  }
  *prepared = setup_.plan.codec_of[t]->Prepare(stats, to_code, noise);
  return true;
}

bool Coder::PrepareKept(uint64_t round, const protocol::Bucket& bucket, Waiting* values) {
  kernels::NoiseKey noise = NoiseOf(round);
  for (uint32_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensors; ++t) {
    if (memories_[t] == nullptr) continue;
    const uint64_t begin = setup_.plan.tensor_begin[t], count = setup_.plan.tensor_count[t];
    memories_[t]->Compensate(0, {values->arena + begin, count}, {&compensated_[begin], count});
    noise.tensor = t;
    if (!PrepareTensor(values->arena, noise, &values->prepared[t - bucket.first_tensor]))
      return false;
  }
  return true;
}

void Coder::OnScaled(Answer answer) {
  const std::pair key{answer.outcome.round(), answer.cell.bucket};
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    early_[key] = std::move(answer);
    return;
  }
  Waiting values = std::move(found->second);
  waiting_.erase(found);
  CodeWith(answer, std::move(values));
}

// A late worker goes through the rounds that it missed without coding anything.
void Coder::ForgetBefore(uint64_t round) {
  waiting_.erase(waiting_.begin(), waiting_.lower_bound({round - std::min<uint64_t>(round, 2), 0}));
  early_.erase(early_.begin(), early_.lower_bound({round, 0}));
}

void Coder::CodeWith(const Answer& scaled, Waiting values) {
  const protocol::Bucket& bucket = setup_.plan.buckets[scaled.cell.bucket];
  Result<std::vector<float>> scalers = protocol::ParseScalers(scaled.payload, bucket.shared.size());
  if (!scalers.ok()) {
    events_.Push(Ended{scalers.status().Within("shared scalers from the server")});
    return;
  }
  for (size_t i = 0; i < bucket.shared.size(); ++i)
    values.prepared[bucket.shared[i] - bucket.first_tensor].scaler = (*scalers)[i];
  EncodeAndPush(scaled.outcome.round(), scaled.cell.bucket, std::move(values),
                Digest(scaled.payload.span()));
}

kernels::NoiseKey Coder::NoiseOf(uint64_t round) const {
  kernels::NoiseKey noise;
  noise.seed = setup_.job.seed();
  noise.rank = static_cast<uint16_t>(rank_);
  noise.round = round;
  return noise;
}

void Coder::EncodeAndPush(uint64_t round, uint32_t bucket, Waiting values, uint64_t digest) {
  const protocol::ExchangePlan& plan = setup_.plan;
  if (!PrepareKept(round, plan.buckets[bucket], &values)) return;
  for (const protocol::Chunk& chunk : plan.buckets[bucket].chunks) {
    std::vector<uint8_t> codes;
    codes.reserve(chunk.max_push_bytes);
    for (const codec::Segment& segment : chunk.segments) {
      Encode(values, segment, values.prepared[segment.tensor - plan.buckets[bucket].first_tensor],
             NoiseOf(round), &codes);
    }
    progress_.push_bytes.Add(codes.size());
    port_.Contribute({protocol::Kind::kPush, bucket, chunk.index}, round, digest,
                     Bytes::Own(std::move(codes)), values.request);
  }
}

void Coder::Encode(const Waiting& values, const codec::Segment& segment,
                   const codec::Prepared& prepared, kernels::NoiseKey noise,
                   std::vector<uint8_t>* codes) {
  const codec::Codec& codec = *setup_.plan.codec_of[segment.tensor];
  const std::span<const float> to_code =
      ToCode(values.arena, segment.tensor).subspan(segment.begin, segment.count);
  const size_t before = codes->size();
  codec.Encode(to_code.data(), segment, prepared, noise, codes);
  codec::Memory* memory = memories_[segment.tensor].get();
  if (memory == nullptr) return;
  sent_.resize(segment.count);
  const Result<size_t> decoded =
      codec.DecodeAlone(std::span(*codes).subspan(before), segment, sent_.data());
  CHECK(decoded.ok()) << decoded.status().message();  // we coded it
  memory->Keep(segment.begin, to_code, sent_);
}

}  // namespace tern::train
