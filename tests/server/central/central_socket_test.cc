// Tests of a server that holds the weights, over a real socket on the loopback interface. LaneLoop
// is the thread that serves one socket. An incarnation is the number of a worker's process.
#include <gmock/gmock.h>

#include "common/protocol/rounds/forms.h"
#include "server/lane_loop.h"
#include "tests/common/net/net_testing.h"
#include "tests/server/central/central_job.h"

namespace tern::server {
namespace {

using testing::HasSubstr;

// The sockets of two workers, connected to their server.
class CentralSocket : public testing::Test {
 protected:
  void StartServer(std::vector<std::string> overrides, uint64_t steps) {
    overrides.insert(overrides.end(), {"workers.count=2", "checkpoints.shard_every_steps=0"});
    job_ = MakeCentralJob(overrides);
    lane_loop_ = net::Value(LaneLoop::Start(*job_, 0, 1, 99, "127.0.0.1", 0, context_,
                                            {.traffic = &traffic_}, &registry_));
    pb::Members members;
    members.set_epoch(1);
    members.set_steps(steps);
    members.set_run(5);
    members.add_incarnations(10);
    members.add_incarnations(11);
    lane_loop_->SendCommand(members);
    for (auto& socket : worker_sockets_) {
      socket = net::Value(net::DealerSocket::Connect(context_, "127.0.0.1", lane_loop_->port(),
                                                     net::SocketOptions()));
      ASSERT_TRUE(net::AwaitLink(*socket, net::DealerSocket::Link::kUp));
    }
  }
  void SendHello(uint32_t rank) {
    pb::Envelope envelope;
    *envelope.mutable_hello() = job_->hello;
    envelope.mutable_hello()->set_rank(rank);
    envelope.mutable_hello()->set_incarnation(first_incarnation_ + rank);
    envelope.mutable_hello()->set_lane(1);
    envelope.mutable_hello()->set_fresh(true);
    ASSERT_TRUE(worker_sockets_[rank]->Send(envelope).ok());
  }
  // Both workers repeat their hello until each has received a welcome, because the server refuses
  // or ignores a hello that arrives before the server has the list of members.
  void JoinWorkers() {
    bool is_welcomed[2] = {false, false};
    for (int tries = 0; tries < 100 && !(is_welcomed[0] && is_welcomed[1]); ++tries) {
      for (uint32_t rank : {0, 1}) {
        if (!is_welcomed[rank]) SendHello(rank);
      }
      for (uint32_t rank : {0, 1}) {
        if (is_welcomed[rank]) continue;
        const auto answer =
            net::AwaitMessage(*worker_sockets_[rank], std::chrono::milliseconds(200));
        is_welcomed[rank] = answer.has_value() && answer->envelope.has_welcome();
      }
    }
    ASSERT_TRUE(is_welcomed[0] && is_welcomed[1]);
  }
  void SendPush(uint32_t rank, const std::vector<float>& values) {
    const protocol::Chunk& chunk = job_->plan.chunk(0, 0);
    pb::Envelope push;
    if (job_->plan.has_rounds) {
      push.mutable_push()->mutable_in_round()->set_round(1);
    } else {
      push.mutable_push()->mutable_at_clock()->set_clock(1);
      push.mutable_push()->mutable_at_clock()->set_wants_weights(true);
    }
    push.mutable_push()->set_rank(rank);
    push.mutable_push()->set_incarnation(first_incarnation_ + rank);
    ASSERT_TRUE(worker_sockets_[rank]->Send(push, EncodePush(*job_, chunk, values, rank, 1)).ok());
  }
  // Returns the next message to this worker that is not a welcome; late welcomes answer repeated
  // hellos.
  net::ReceivedMessage NextMessage(uint32_t rank) {
    auto received = net::AwaitMessage(*worker_sockets_[rank]);
    while (received.has_value() && received->envelope.has_welcome())
      received = net::AwaitMessage(*worker_sockets_[rank]);
    EXPECT_TRUE(received.has_value());
    return received.has_value() ? std::move(*received) : net::ReceivedMessage();
  }

  Registry registry_;
  net::Traffic traffic_{registry_};
  net::Context context_;
  std::unique_ptr<setup::Setup> job_;
  std::unique_ptr<LaneLoop> lane_loop_;
  std::unique_ptr<net::DealerSocket> worker_sockets_[2];
  // The incarnation of rank 0. That of rank 1 is larger by one.
  uint64_t first_incarnation_ = 10;
};

TEST_F(CentralSocket, AnswersPushesWithWeightsByTheScheduleAndStopsAfterTheLast) {
  StartServer({"train.algorithm=asgd", "train.asgd.push_every=1"}, 1);
  JoinWorkers();
  std::vector<float> weights = InitialWeights(*job_);
  const float first_weight_before = weights[job_->plan.chunk(0, 0).begin];
  const std::vector<float> ones(job_->table.total, 1);
  for (uint32_t rank : {0, 1}) {
    SendPush(rank, ones);
    const net::ReceivedMessage received = NextMessage(rank);
    ASSERT_TRUE(received.envelope.has_sum()) << received.envelope.ShortDebugString();
    const pb::Outcome::AtClock& answer = received.envelope.sum().at_clock();
    EXPECT_EQ(answer.weights().version(), rank + 1);
    EXPECT_EQ(answer.staleness(), rank);
    EXPECT_EQ(received.envelope.sum().learning_rate(), 0.1);
    EXPECT_EQ(answer.stop(), rank == 1);
    ApplyServerAnswer(*job_, job_->plan.chunk(0, 0), false, received.payload, &weights);
    EXPECT_NEAR(weights[job_->plan.chunk(0, 0).begin],
                first_weight_before - 0.1f * static_cast<float>(rank + 1), 1e-6);
  }
  lane_loop_.reset();
  const std::string metrics_text = registry_.PrometheusText();
  EXPECT_THAT(metrics_text, HasSubstr("tern_server_staleness_bucket{lane=\"1\",le=\"0\"} 1\n"));
  EXPECT_THAT(metrics_text, HasSubstr("tern_server_staleness_bucket{lane=\"1\",le=\"1\"} 2\n"));
  EXPECT_THAT(metrics_text, HasSubstr("tern_server_dropped_total{lane=\"1\",rank=\"1\"} 0\n"));
}

TEST_F(CentralSocket, AnswersAWaitingWorkerWhenTheJobMustStop) {
  StartServer({"train.algorithm=ssp", "train.ssp.staleness=0"}, 100);
  JoinWorkers();
  SendPush(0, InitialWeights(*job_));
  lane_loop_->SendCommand(StopAfterThisRound{});
  const net::ReceivedMessage received = NextMessage(0);
  ASSERT_TRUE(received.envelope.has_sum());
  EXPECT_EQ(received.envelope.sum().at_clock().clock(), 1u);
  EXPECT_TRUE(received.envelope.sum().at_clock().stop());
}

TEST_F(CentralSocket, GoesBackToTheInitialWeightsAndRefusesOldProcesses) {
  StartServer({"train.algorithm=ssgd"}, 100);
  JoinWorkers();
  const std::vector<float> ones(job_->table.total, 1);
  for (uint32_t rank : {0, 1}) SendPush(rank, ones);
  for (uint32_t rank : {0, 1}) ASSERT_TRUE(NextMessage(rank).envelope.has_sum());

  pb::Members members;
  members.set_epoch(2);
  members.set_steps(100);
  members.set_run(5);
  members.set_beginning(1234);
  members.set_begin(0);
  members.add_incarnations(20);
  members.add_incarnations(21);
  lane_loop_->SendCommand(members);
  first_incarnation_ = 20;
  JoinWorkers();
  lane_loop_->SendCommand(members);  // The same message again must have no effect.
  first_incarnation_ = 10;
  SendPush(0, ones);  // A late push of the worker's old process.
  EXPECT_TRUE(NextMessage(0).envelope.has_refuse());
  first_incarnation_ = 20;
  pb::Envelope pull;
  pull.mutable_push()->set_rank(0);
  pull.mutable_push()->set_incarnation(20);
  pull.mutable_push()->mutable_pull()->set_number(3);
  pull.mutable_push()->mutable_pull()->mutable_weights();
  ASSERT_TRUE(worker_sockets_[0]->Send(pull).ok());
  const net::ReceivedMessage answer = NextMessage(0);
  EXPECT_EQ(answer.envelope.sum().pulled().number(), 3u);
  std::vector<float> weights(job_->table.total), initial_weights = InitialWeights(*job_);
  const protocol::Chunk& chunk = job_->plan.chunk(0, 0);
  ApplyServerAnswer(*job_, chunk, protocol::HasFp32Payload(answer.envelope.sum()), answer.payload,
                    &weights);
  for (uint64_t i = chunk.begin; i < chunk.begin + chunk.count; ++i)
    ASSERT_EQ(weights[i], initial_weights[i]);
  for (uint32_t rank : {0, 1}) SendPush(rank, ones);
  EXPECT_EQ(NextMessage(1).envelope.sum().of_round().round(), 1u);
}

}  // namespace
}  // namespace tern::server
