// In this file, the lane (see central_job.h) knows worker `rank` as peer number 100 + rank.
#include "tests/server/central/central_job.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "common/codec/float_sum.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/forms.h"
#include "kernels/codes/stats.h"

namespace tern::server {

std::unique_ptr<setup::Setup> MakeCentralJob(const std::vector<std::string>& overrides) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) /
      ("tern_central_" + std::to_string(getpid()) + "_" + std::to_string(std::rand()) + ".yaml");
  std::ofstream(path) << R"(
servers: [{address: "127.0.0.1:7500", data_sockets: 1}]
workers: {count: 4}
data: {dir: nowhere}
train:
  batch_total: 8
  steps: 40
  parameters: central
  optimizer: {name: sgd}
  schedule: {name: step, learning_rate: 0.1, step_every: 5, gamma: 0.8}
exchange: {codec: fp32, chunk_kib: 1}
model:
  net:
    input: {channels: 1, height: 4, width: 4}
    classes: 3
    layers:
      - {name: hidden, dense: {outputs: 40}}
      - {name: rectified, relu: {}}
      - {name: scores, dense: {outputs: 3}}
      - {name: loss, softmax_loss: {}}
)";
  auto setup = setup::MakeSetup(path.string(), overrides);
  std::filesystem::remove(path);
  EXPECT_TRUE(setup.ok()) << setup.status().message();
  return setup.ok() ? std::move(*setup) : nullptr;
}

double RelativeDistance(const std::vector<float>& a, const std::vector<double>& b) {
  double squared_distance = 0, squared_norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    squared_distance += (a[i] - b[i]) * (a[i] - b[i]);
    squared_norm += b[i] * b[i];
  }
  return std::sqrt(squared_distance / squared_norm);
}

std::vector<double> ToDoubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

Bytes EncodePush(const setup::Setup& job, const protocol::Chunk& chunk,
                 const std::vector<float>& values, uint32_t rank, uint64_t round) {
  kernels::NoiseKey noise;
  noise.seed = job.job.seed();
  noise.rank = static_cast<uint16_t>(rank);
  noise.round = round;
  std::vector<uint8_t> codes;
  for (const codec::Segment& segment : chunk.segments) {
    const codec::Codec& codec = *job.plan.codec_of[segment.tensor];
    const uint64_t tensor_begin = job.plan.tensor_begin[segment.tensor];
    const float* tensor_values = values.data() + tensor_begin;
    const uint64_t tensor_count = job.plan.tensor_count[segment.tensor];
    codec.Encode(tensor_values + segment.begin, segment,
                 codec.Prepare(kernels::ComputeStats(tensor_values, tensor_count),
                               {tensor_values, tensor_count}, noise),
                 noise, &codes);
  }
  return Bytes::Own(std::move(codes));
}

void ApplyServerAnswer(const setup::Setup& job, const protocol::Chunk& chunk, bool is_complete,
                       const Bytes& payload, std::vector<float>* weights) {
  float* next_weight = weights->data() + chunk.begin;
  if (is_complete) {
    ASSERT_EQ(payload.size(), chunk.count * sizeof(float));
    codec::ReadFloats(payload.span(), {next_weight, chunk.count});
    return;
  }
  ASSERT_LE(payload.size(), chunk.max_sum_bytes);
  std::span<const uint8_t> remaining_bytes = payload.span();
  const bool has_changes = job.job.exchange().pull() == pb::Exchange::changes;
  for (const codec::Segment& segment : chunk.segments) {
    std::vector<float> decoded(segment.count);
    const Result<size_t> code_size =
        job.plan.pull_codec->DecodeSingleCode(remaining_bytes, segment, decoded.data());
    ASSERT_TRUE(code_size.ok()) << code_size.status().message();
    remaining_bytes = remaining_bytes.subspan(*code_size);
    for (float value : decoded) {
      *next_weight = has_changes ? *next_weight + value : value;
      ++next_weight;
    }
  }
  ASSERT_TRUE(remaining_bytes.empty());
}

const std::vector<const protocol::Chunk*> ChunksOf(const setup::Setup& job) {
  std::vector<const protocol::Chunk*> chunks;
  for (const protocol::Bucket& bucket : job.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) chunks.push_back(&chunk);
  }
  return chunks;
}

Rate RateOf(const setup::Setup& job) {
  auto schedule = update::Schedule::Make(job.job.train(), job.job.train().steps());
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return [schedule = *schedule](uint64_t step) { return schedule.Rate(step); };
}

ClockDrill::ClockDrill(const setup::Setup& job, LaneCheckpoints* checkpoints)
    : job_(job),
      no_checkpoints_(job, 0, 1),
      weights_(job.plan.workers, InitialWeights(job)),
      versions_(job.plan.workers, std::vector<uint64_t>(ChunksOf(job).size())),
      clocks_(job.plan.workers),
      is_waiting_(job.plan.workers),
      has_stopped_(job.plan.workers),
      average_(job.table.total) {
  protocol::RoundLane::Options options;
  options.workers = job.plan.workers;
  options.incarnation = 7;
  auto central = CentralLane::Make(job, 0, 1, options, weights_[0], RateOf(job),
                                   checkpoints == nullptr ? no_checkpoints_ : *checkpoints);
  EXPECT_TRUE(central.ok()) << central.status().message();
  central_ = std::move(*central);
  members_.set_epoch(1);
  members_.set_steps(job.job.train().steps());
  for (uint32_t rank = 0; rank < job.plan.workers; ++rank) members_.add_incarnations(10 + rank);
  SendAllHellos();
}

void ClockDrill::SendAllHellos() {
  protocol::Sends sends;
  central_->lane().OnMembers(members_, &sends);
  for (uint32_t rank = 0; rank < job_.plan.workers; ++rank) SendHello(rank);
  EXPECT_TRUE(central_->lane().open());
}

void ClockDrill::SendHello(uint32_t rank) {
  pb::Hello hello = job_.hello;
  hello.set_rank(rank);
  hello.set_incarnation(members_.incarnations(static_cast<int>(rank)));
  hello.set_fresh(true);
  protocol::Sends sends;
  central_->lane().OnHello(100 + rank, hello, &sends);
}

protocol::Message ClockDrill::MakeMessage(uint32_t rank, const protocol::Chunk& chunk) const {
  protocol::Message message;
  pb::Contribution* contribution = message.head.mutable_push();
  contribution->set_bucket(chunk.bucket);
  contribution->set_chunk(chunk.index);
  contribution->set_rank(rank);
  contribution->set_incarnation(members_.incarnations(static_cast<int>(rank)));
  return message;
}

void ClockDrill::Push(uint32_t rank, const std::vector<float>& values) {
  const auto chunks = ChunksOf(job_);
  answer_bytes_ = 0;
  ++clocks_[rank];
  is_waiting_[rank] = true;
  for (size_t i = 0; i < chunks.size(); ++i) {
    protocol::Message message = MakeMessage(rank, *chunks[i]);
    pb::Contribution::AtClock* push = message.head.mutable_push()->mutable_at_clock();
    push->set_clock(clocks_[rank]);
    push->set_holds(versions_[rank][i]);
    push->set_wants_weights(true);
    message.payload = EncodePush(job_, *chunks[i], values, rank, clocks_[rank]);
    protocol::Sends sends;
    central_->lane().OnMessage(100 + rank, message, &sends);
    DeliverAnswers(sends);
  }
  central_->AfterMessages();
}

void ClockDrill::MakePushes(int begin, int end) {
  RandomRanks order(4);
  for (int i = 0; i < end; ++i) {
    const uint32_t rank = order.Next(4);
    if (i >= begin) Push(rank, GradientAt(rank, clock(rank), weights_of(rank)));
  }
}

void ClockDrill::Rejoin(uint32_t rank) {
  members_.set_epoch(members_.epoch() + 1);
  members_.set_incarnations(static_cast<int>(rank), members_.epoch() * 100 + rank);
  protocol::Sends sends;
  central_->lane().OnMembers(members_, &sends);
  SendHello(rank);
  std::fill(weights_[rank].begin(), weights_[rank].end(), std::numeric_limits<float>::quiet_NaN());
  SendPull(rank, false);
}

void ClockDrill::Pull(uint32_t rank) { SendPull(rank, true); }

void ClockDrill::SendPull(uint32_t rank, bool has_weights) {
  const auto chunks = ChunksOf(job_);
  answer_bytes_ = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    protocol::Message message = MakeMessage(rank, *chunks[i]);
    pb::Contribution::Pull* pull = message.head.mutable_push()->mutable_pull();
    pull->mutable_weights();
    if (has_weights) pull->mutable_weights()->set_holds(versions_[rank][i]);
    protocol::Sends sends;
    central_->lane().OnMessage(100 + rank, message, &sends);
    DeliverAnswers(sends);
  }
}

void ClockDrill::CopyWorkersOf(const ClockDrill& other) {
  weights_ = other.weights_;
  versions_ = other.versions_;
  clocks_ = other.clocks_;
  is_waiting_ = other.is_waiting_;
  has_stopped_ = other.has_stopped_;
}

std::vector<float> ClockDrill::PullAverage(uint32_t rank) {
  for (const protocol::Chunk* chunk : ChunksOf(job_)) {
    protocol::Message message = MakeMessage(rank, *chunk);
    message.head.mutable_push()->mutable_pull()->mutable_average();
    protocol::Sends sends;
    central_->lane().OnMessage(100 + rank, message, &sends);
    DeliverAnswers(sends);
  }
  return average_;
}

void ClockDrill::DeliverAnswers(const protocol::Sends& sends) {
  const auto chunks = ChunksOf(job_);
  for (const protocol::Send& send : sends) {
    ASSERT_TRUE(send.message.head.has_sum()) << send.message.head.ShortDebugString();
    const pb::Outcome& outcome = send.message.head.sum();
    const auto rank = static_cast<uint32_t>(send.to - 100);
    size_t chunk_index = 0;
    while (chunks[chunk_index]->bucket != outcome.bucket() ||
           chunks[chunk_index]->index != outcome.chunk())
      ++chunk_index;
    if (outcome.pulled().has_average()) {
      ApplyServerAnswer(job_, *chunks[chunk_index], true, send.message.payload, &average_);
      continue;
    }
    clocks_[rank] = outcome.has_pulled() ? outcome.pulled().clock() : outcome.at_clock().clock();
    is_waiting_[rank] = false;
    if (outcome.at_clock().stop() || outcome.pulled().stop()) has_stopped_[rank] = true;
    answers_are_complete_ = protocol::HasFp32Payload(outcome);
    answer_bytes_ += send.message.payload.size();
    const pb::Outcome::Weights* weights = protocol::WeightsOf(outcome);
    ASSERT_NE(weights, nullptr) << outcome.ShortDebugString();
    versions_[rank][chunk_index] = weights->version();
    ApplyServerAnswer(job_, *chunks[chunk_index], answers_are_complete_, send.message.payload,
                      &weights_[rank]);
  }
}

RoundDrill::RoundDrill(const setup::Setup& job) : job_(job), weights_(InitialWeights(job)) {
  auto lane_specs = protocol::MakeCellsOfLane(job.plan, 0, 1);
  const auto chunks = ChunksOf(job);
  for (size_t i = 0; i < chunks.size(); ++i) {
    auto rounds = CentralRounds::Make(job, *chunks[i], weights_, RateOf(job));
    EXPECT_TRUE(rounds.ok()) << rounds.status().message();
    rounds_of_chunks_.push_back(std::move(*rounds));
    cell_specs_.push_back(rounds_of_chunks_.back()->DescribeCell(lane_specs[i]));
    EXPECT_EQ(cell_specs_.back().cell, lane_specs[i].cell);
  }
}

void RoundDrill::MakeRound(const std::vector<std::vector<float>>& values,
                           const std::vector<uint32_t>& ranks) {
  const auto chunks = ChunksOf(job_);
  answer_bytes_ = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto sum = cell_specs_[i].open(1);
    for (size_t k = 0; k < ranks.size(); ++k) {
      const Status status = sum->Add(ranks[k], EncodePush(job_, *chunks[i], values[k], ranks[k],
                                                          rounds_of_chunks_[i]->round() + 1));
      ASSERT_TRUE(status.ok()) << status.message();
    }
    const Bytes answer = sum->Close();
    EXPECT_TRUE(cell_specs_[i].check_outcome(answer, static_cast<uint32_t>(ranks.size())).ok());
    answer_bytes_ += answer.size();
    ApplyServerAnswer(job_, *chunks[i], false, answer, &weights_);
  }
}

}  // namespace tern::server
