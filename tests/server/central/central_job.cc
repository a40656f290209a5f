// In this file, worker `rank` has the peer number 100 + rank in its lane.
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

std::unique_ptr<setup::Setup> CentralJob(const std::vector<std::string>& overrides) {
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
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

std::vector<double> InDouble(const std::vector<float>& values) {
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
    const uint64_t tensor = job.plan.tensor_begin[segment.tensor];
    const float* whole = values.data() + tensor;
    const uint64_t count = job.plan.tensor_count[segment.tensor];
    codec.Encode(whole + segment.begin, segment,
                 codec.Prepare(kernels::ComputeStats(whole, count), {whole, count}, noise), noise,
                 &codes);
  }
  return Bytes::Own(std::move(codes));
}

void TakeAnswer(const setup::Setup& job, const protocol::Chunk& chunk, bool whole,
                const Bytes& payload, std::vector<float>* held) {
  float* to = held->data() + chunk.begin;
  if (whole) {
    ASSERT_EQ(payload.size(), chunk.count * sizeof(float));
    codec::ReadFloats(payload.span(), {to, chunk.count});
    return;
  }
  ASSERT_LE(payload.size(), chunk.max_sum_bytes);
  std::span<const uint8_t> rest = payload.span();
  const bool changes = job.job.exchange().pull() == pb::Exchange::changes;
  for (const codec::Segment& segment : chunk.segments) {
    std::vector<float> part(segment.count);
    const Result<size_t> size = job.plan.pull_codec->DecodeSingleCode(rest, segment, part.data());
    ASSERT_TRUE(size.ok()) << size.status().message();
    rest = rest.subspan(*size);
    for (float value : part) {
      *to = changes ? *to + value : value;
      ++to;
    }
  }
  ASSERT_TRUE(rest.empty());
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
      held_(job.plan.workers, InitialWeights(job)),
      versions_(job.plan.workers, std::vector<uint64_t>(ChunksOf(job).size())),
      clocks_(job.plan.workers),
      waiting_(job.plan.workers),
      stopped_(job.plan.workers),
      average_(job.table.total) {
  protocol::RoundLane::Options options;
  options.workers = job.plan.workers;
  options.incarnation = 7;
  auto central = CentralLane::Make(job, 0, 1, options, held_[0], RateOf(job),
                                   checkpoints == nullptr ? no_checkpoints_ : *checkpoints);
  EXPECT_TRUE(central.ok()) << central.status().message();
  central_ = std::move(*central);
  members_.set_epoch(1);
  members_.set_steps(job.job.train().steps());
  for (uint32_t rank = 0; rank < job.plan.workers; ++rank) members_.add_incarnations(10 + rank);
  GreetAll();
}

void ClockDrill::GreetAll() {
  protocol::Sends out;
  central_->lane().OnMembers(members_, &out);
  for (uint32_t rank = 0; rank < job_.plan.workers; ++rank) SendHello(rank);
  EXPECT_TRUE(central_->lane().open());
}

void ClockDrill::SendHello(uint32_t rank) {
  pb::Hello hello = job_.hello;
  hello.set_rank(rank);
  hello.set_incarnation(members_.incarnations(static_cast<int>(rank)));
  hello.set_fresh(true);
  protocol::Sends out;
  central_->lane().OnHello(100 + rank, hello, &out);
}

protocol::Message ClockDrill::MakeMessage(uint32_t rank, const protocol::Chunk& chunk) const {
  protocol::Message message;
  pb::Contribution* c = message.head.mutable_push();
  c->set_bucket(chunk.bucket);
  c->set_chunk(chunk.index);
  c->set_rank(rank);
  c->set_incarnation(members_.incarnations(static_cast<int>(rank)));
  return message;
}

void ClockDrill::Push(uint32_t rank, const std::vector<float>& values) {
  const auto chunks = ChunksOf(job_);
  answer_bytes_ = 0;
  ++clocks_[rank];
  waiting_[rank] = true;
  for (size_t i = 0; i < chunks.size(); ++i) {
    protocol::Message message = MakeMessage(rank, *chunks[i]);
    pb::Contribution::AtClock* push = message.head.mutable_push()->mutable_at_clock();
    push->set_clock(clocks_[rank]);
    push->set_holds(versions_[rank][i]);
    push->set_wants_weights(true);
    message.payload = EncodePush(job_, *chunks[i], values, rank, clocks_[rank]);
    protocol::Sends out;
    central_->lane().OnMessage(100 + rank, message, &out);
    Deliver(out);
  }
  central_->AfterMessages();
}

void ClockDrill::PushOn(int from, int to) {
  Order order(4);
  for (int i = 0; i < to; ++i) {
    const uint32_t rank = order.Next(4);
    if (i >= from) Push(rank, GradientAt(rank, clock(rank), held(rank)));
  }
}

void ClockDrill::Rejoin(uint32_t rank) {
  members_.set_epoch(members_.epoch() + 1);
  members_.set_incarnations(static_cast<int>(rank), members_.epoch() * 100 + rank);
  protocol::Sends out;
  central_->lane().OnMembers(members_, &out);
  SendHello(rank);
  std::fill(held_[rank].begin(), held_[rank].end(), std::numeric_limits<float>::quiet_NaN());
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
    protocol::Sends out;
    central_->lane().OnMessage(100 + rank, message, &out);
    Deliver(out);
  }
}

void ClockDrill::TakeWorkersOf(const ClockDrill& other) {
  held_ = other.held_;
  versions_ = other.versions_;
  clocks_ = other.clocks_;
  waiting_ = other.waiting_;
  stopped_ = other.stopped_;
}

std::vector<float> ClockDrill::PullAverage(uint32_t rank) {
  for (const protocol::Chunk* chunk : ChunksOf(job_)) {
    protocol::Message message = MakeMessage(rank, *chunk);
    message.head.mutable_push()->mutable_pull()->mutable_average();
    protocol::Sends out;
    central_->lane().OnMessage(100 + rank, message, &out);
    Deliver(out);
  }
  return average_;
}

void ClockDrill::Deliver(const protocol::Sends& sends) {
  const auto chunks = ChunksOf(job_);
  for (const protocol::Send& send : sends) {
    ASSERT_TRUE(send.message.head.has_sum()) << send.message.head.ShortDebugString();
    const pb::Outcome& outcome = send.message.head.sum();
    const auto rank = static_cast<uint32_t>(send.to - 100);
    size_t at = 0;
    while (chunks[at]->bucket != outcome.bucket() || chunks[at]->index != outcome.chunk()) ++at;
    if (outcome.pulled().has_average()) {
      TakeAnswer(job_, *chunks[at], true, send.message.payload, &average_);
      continue;
    }
    clocks_[rank] = outcome.has_pulled() ? outcome.pulled().clock() : outcome.at_clock().clock();
    waiting_[rank] = false;
    if (outcome.at_clock().stop() || outcome.pulled().stop()) stopped_[rank] = true;
    whole_ = protocol::IsWhole(outcome);
    answer_bytes_ += send.message.payload.size();
    const pb::Outcome::Weights* weights = protocol::WeightsOf(outcome);
    ASSERT_NE(weights, nullptr) << outcome.ShortDebugString();
    versions_[rank][at] = weights->version();
    TakeAnswer(job_, *chunks[at], whole_, send.message.payload, &held_[rank]);
  }
}

RoundDrill::RoundDrill(const setup::Setup& job) : job_(job), held_(InitialWeights(job)) {
  auto sums = protocol::CellsOfLane(job.plan, 0, 1);
  const auto chunks = ChunksOf(job);
  for (size_t i = 0; i < chunks.size(); ++i) {
    auto cell = CentralRounds::Make(job, *chunks[i], held_, RateOf(job));
    EXPECT_TRUE(cell.ok()) << cell.status().message();
    cells_.push_back(std::move(*cell));
    specs_.push_back(cells_.back()->Spec(sums[i]));
    EXPECT_EQ(specs_.back().cell, sums[i].cell);
  }
}

void RoundDrill::Round(const std::vector<std::vector<float>>& values,
                       const std::vector<uint32_t>& ranks) {
  const auto chunks = ChunksOf(job_);
  answer_bytes_ = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto sum = specs_[i].open(1);
    for (size_t k = 0; k < ranks.size(); ++k) {
      const Status added = sum->Add(
          ranks[k], EncodePush(job_, *chunks[i], values[k], ranks[k], cells_[i]->round() + 1));
      ASSERT_TRUE(added.ok()) << added.message();
    }
    const Bytes answer = sum->Close();
    EXPECT_TRUE(specs_[i].check_outcome(answer, static_cast<uint32_t>(ranks.size())).ok());
    answer_bytes_ += answer.size();
    TakeAnswer(job_, *chunks[i], false, answer, &held_);
  }
}

}  // namespace tern::server
