#include "worker/train/coder.h"

#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"
#include "common/protocol/cells.h"
#include "kernels/optimizer.h"
#include "kernels/stats.h"

namespace tern::train {

float DecayOf(const setup::Setup& setup, uint32_t t, pb::WeightDecay::Where where) {
  const pb::WeightDecay& decay = setup.job.train().weight_decay();
  if (decay.where() != where || (setup.table.parameters[t].is_bias && !decay.biases())) return 0;
  return static_cast<float>(decay.rate());
}

Coder::Coder(const setup::Setup& setup, uint32_t rank, Replica& replica, Port& port, Events& events,
             Progress& progress)
    : setup_(setup),
      rank_(rank),
      replica_(replica),
      port_(port),
      events_(events),
      progress_(progress),
      prepared_(setup.table.parameters.size()),
      thread_("coder", [this] { Run(); }) {}

Coder::~Coder() {
  work_.Close();
  thread_.Join();
}

void Coder::Run() {
  while (auto work = work_.Pop()) {
    TimeScope time(progress_.encode);
    if (const auto* ready = std::get_if<Bucket>(&*work)) {
      Prepare(*ready);
    } else {
      OnScaled(std::get<Answer>(*work));
    }
  }
}

void Coder::Prepare(const Bucket& ready) {
  const protocol::ExchangePlan& plan = setup_.plan;
  const protocol::Bucket& bucket = plan.buckets[ready.bucket];
  for (uint32_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensors; ++t) {
    const uint64_t begin = plan.tensor_begin[t], count = plan.tensor_count[t];
    float* g = replica_.gradients() + begin;
    if (const float decay = DecayOf(setup_, t, pb::WeightDecay::in_gradient); decay != 0) {
      kernels::AddDecay(g, replica_.parameters() + begin, count, decay, g);
    }
    const kernels::Stats stats = kernels::ComputeStats(g, count);
    if (!stats.finite) {
      events_.Push(
          Ended{Status(Code::kBadData, Cat("the gradient of ", setup_.table.parameters[t].name,
                                           " is not finite at round ", ready.round, " on worker ",
                                           rank_, "; lower the learning rate"))});
      return;
    }
    prepared_[t] = plan.codec_of[t]->Prepare(stats, count);
  }
  if (bucket.shared.empty()) return EncodeAndPush(ready.round, ready.bucket, 0);
  std::vector<float> scalers;
  for (uint32_t t : bucket.shared) scalers.push_back(prepared_[t].scaler);
  port_.Contribute({protocol::Kind::kScale, ready.bucket, 0}, ready.round, 0,
                   protocol::EncodeScalers(scalers));
}

void Coder::OnScaled(const Answer& answer) {
  const std::vector<uint32_t>& shared = setup_.plan.buckets[answer.cell.bucket].shared;
  Result<std::vector<float>> scalers = protocol::ParseScalers(answer.payload, shared.size());
  if (!scalers.ok()) {
    events_.Push(Ended{scalers.status().Within("shared scalers from the server")});
    return;
  }
  for (size_t i = 0; i < shared.size(); ++i) prepared_[shared[i]].scaler = (*scalers)[i];
  EncodeAndPush(answer.outcome.round(), answer.cell.bucket, Digest(answer.payload.span()));
}

void Coder::EncodeAndPush(uint64_t round, uint32_t bucket, uint64_t digest) {
  const protocol::ExchangePlan& plan = setup_.plan;
  kernels::NoiseKey noise;
  noise.seed = setup_.job.seed();
  noise.rank = static_cast<uint16_t>(rank_);
  noise.round = round;
  for (const protocol::Chunk& chunk : plan.buckets[bucket].chunks) {
    std::vector<uint8_t> codes;
    codes.reserve(chunk.max_push_bytes);
    for (const codec::Segment& segment : chunk.segments) {
      const float* g = replica_.gradients() + plan.tensor_begin[segment.tensor] + segment.begin;
      plan.codec_of[segment.tensor]->Encode(g, segment, prepared_[segment.tensor], noise, &codes);
    }
    progress_.push_bytes.Add(codes.size());
    port_.Contribute({protocol::Kind::kPush, bucket, chunk.index}, round, digest,
                     Bytes::Own(std::move(codes)));
  }
}

}  // namespace tern::train
