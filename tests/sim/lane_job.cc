#include "tests/sim/lane_job.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/codec/codecs.h"

namespace tern::sim {

namespace {

constexpr uint64_t kNumElements = 2;  // floats in each chunk, and in each tensor
constexpr uint32_t kNumTensors = kNumBuckets * kNumChunks;

void FillJob(const Schedule& schedule, pb::Job* job) {
  job->set_output_dir("disk");
  job->mutable_workers()->set_count(schedule.workers);
  for (const uint32_t num_lanes : schedule.data_lanes) {
    pb::Server* server = job->add_servers();
    server->set_address("shard:1");
    server->set_data_sockets(num_lanes);
  }
  pb::Train* train = job->mutable_train();
  train->set_algorithm(schedule.algorithm);
  train->set_parameters(pb::Train::central);
  train->mutable_optimizer()->set_name("sgd");
  train->mutable_schedule()->set_name("step");
  train->mutable_schedule()->set_learning_rate(kFirstRate);
  train->mutable_schedule()->set_step_every(kRateEvery);
  train->mutable_schedule()->set_gamma(kRateFactor);
  train->set_max_staleness(static_cast<uint32_t>(schedule.clocks.max_staleness));
  if (schedule.clocks.bound.has_value())
    train->mutable_ssp()->set_staleness(static_cast<uint32_t>(*schedule.clocks.bound));
  train->mutable_dcasgd_c()->set_lambda(0.04);
  train->mutable_dcasgd_a()->set_lambda(0.04);
  train->mutable_softsync()->set_n(std::max(1u, schedule.workers / 2));
  train->mutable_easgd()->set_tau(1);
  train->mutable_easgd()->set_alpha(kElastic);
  train->mutable_easgd_async()->set_tau(1);
  if (schedule.sends_changes) job->mutable_exchange()->set_pull(pb::Exchange::changes);
  pb::Checkpoints* checkpoints = job->mutable_checkpoints();
  checkpoints->set_every_steps(schedule.has_rounds() ? schedule.checkpoint_every
                                                     : 2 + schedule.clocks.save_every % 4);
  checkpoints->set_shard_every_steps(schedule.has_rounds() ? schedule.save_every
                                                           : 1 + schedule.clocks.save_every % 3);
}

// Appends tensor `index` at the end of the parameter array. It is a bias, so its initial values are
// zeros.
void AddTensor(uint32_t index, setup::Setup* setup) {
  models::Parameter parameter;
  parameter.name = "tensor" + std::to_string(index);
  parameter.offset = index * kNumElements;
  parameter.count = kNumElements;
  parameter.is_bias = true;
  parameter.init.set_constant(0);
  setup->table.parameters.push_back(parameter);
  setup->table.total += kNumElements;
  protocol::ExchangePlan& plan = setup->plan;
  plan.tensor_begin.push_back(parameter.offset);
  plan.tensor_count.push_back(kNumElements);
  plan.column.push_back(1);
  plan.codec_of.push_back(plan.pull_codec);
  plan.first_part.push_back(index);
  plan.parts.push_back({index, 0, kNumElements});
}

protocol::Chunk MakeChunk(uint32_t bucket, uint32_t index, protocol::LaneRef lane) {
  const uint32_t tensor = bucket * kNumChunks + index;
  protocol::Chunk chunk;
  chunk.bucket = bucket;
  chunk.index = index;
  chunk.begin = tensor * kNumElements;
  chunk.count = kNumElements;
  chunk.segments = {{tensor, 0, kNumElements, 1}};
  chunk.part_of_segment = {tensor};
  chunk.shard = lane.shard;
  chunk.lane = lane.lane;
  chunk.max_push_bytes = chunk.max_sum_bytes = kNumElements * sizeof(float);
  return chunk;
}

}  // namespace

std::unique_ptr<setup::Setup> MakeLaneJob(const Schedule& schedule, const Layout& layout,
                                          const pb::Hello& hello) {
  static const std::shared_ptr<const codec::Codec> fp32 = std::move(*codec::MakeCodec("fp32", {}));
  auto setup = std::make_unique<setup::Setup>();
  FillJob(schedule, &setup->job);
  setup->hello = hello;
  setup->timings = schedule.timings;
  protocol::ExchangePlan& plan = setup->plan;
  plan.workers = schedule.workers;
  plan.data_lanes = schedule.data_lanes;
  plan.is_central = true;
  plan.has_rounds = schedule.has_rounds();
  plan.codecs = {fp32};
  plan.pull_codec = fp32.get();
  for (uint32_t t = 0; t < kNumTensors; ++t) AddTensor(t, setup.get());
  plan.first_part.push_back(kNumTensors);
  for (uint32_t b = 0; b < kNumBuckets; ++b) {
    protocol::Bucket& bucket = plan.buckets.emplace_back();
    bucket.begin = b * kNumChunks * kNumElements;
    bucket.count = kNumChunks * kNumElements;
    bucket.first_tensor = bucket.first_part = b * kNumChunks;
    bucket.tensors = bucket.parts = kNumChunks;
    for (uint32_t c = 0; c < kNumChunks; ++c)
      bucket.chunks.push_back(MakeChunk(b, c, layout.LaneOf({protocol::Kind::kPush, b, c})));
    bucket.home_shard = bucket.chunks.front().shard;
  }
  return setup;
}

}  // namespace tern::sim
