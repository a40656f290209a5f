#include "worker/train/coder.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
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
    : setup_(setup),
      rank_(rank),
      port_(port),
      events_(events),
      progress_(progress),
      thread_("coder", [this] { Run(); }) {}

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
  while (auto work = work_.Pop()) {
    TimeScope time(progress_.encode);
    if (const auto* ready = std::get_if<Ready>(&*work)) {
      Prepare(*ready);
    } else if (const auto* forget = std::get_if<ForgetAll>(&*work)) {
      waiting_.clear();
      early_.clear();
      forget->done->set_value();
    } else {
      OnScaled(std::move(std::get<Answer>(*work)));
    }
  }
}

void Coder::Prepare(const Ready& ready) {
  const protocol::ExchangePlan& plan = setup_.plan;
  const protocol::Bucket& bucket = plan.buckets[ready.bucket];
  Waiting values{ready.arena, ready.request, {}};
  for (uint32_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensors; ++t) {
    const kernels::Stats stats =
        kernels::ComputeStats(ready.arena + plan.tensor_begin[t], plan.tensor_count[t]);
    if (!stats.finite) {
      events_.Push(Ended{Status(
          Code::kBadData, Cat(WhatIsPushed(setup_.job.train()), setup_.table.parameters[t].name,
                              " is not finite at round ", ready.round, " on worker ", rank_,
                              "; lower the learning rate"))});
      return;
    }
    values.prepared.push_back(plan.codec_of[t]->Prepare(stats, plan.tensor_count[t]));
  }
  if (bucket.shared.empty()) return EncodeAndPush(ready.round, ready.bucket, values, 0);
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
  EncodeAndPush(scaled.outcome.round(), scaled.cell.bucket, values, Digest(scaled.payload.span()));
}

void Coder::EncodeAndPush(uint64_t round, uint32_t bucket, const Waiting& values, uint64_t digest) {
  const protocol::ExchangePlan& plan = setup_.plan;
  kernels::NoiseKey noise;
  noise.seed = setup_.job.seed();
  noise.rank = static_cast<uint16_t>(rank_);
  noise.round = round;
  for (const protocol::Chunk& chunk : plan.buckets[bucket].chunks) {
    std::vector<uint8_t> codes;
    codes.reserve(chunk.max_push_bytes);
    for (const codec::Segment& segment : chunk.segments) {
      const float* g = values.arena + plan.tensor_begin[segment.tensor] + segment.begin;
      plan.codec_of[segment.tensor]->Encode(
          g, segment, values.prepared[segment.tensor - plan.buckets[bucket].first_tensor], noise,
          &codes);
    }
    progress_.push_bytes.Add(codes.size());
    port_.Contribute({protocol::Kind::kPush, bucket, chunk.index}, round, digest,
                     Bytes::Own(std::move(codes)), values.request);
  }
}

}  // namespace tern::train
