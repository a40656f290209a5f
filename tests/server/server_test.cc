// Tests of the server in this process: binding its sockets, joining of workers, a round, and
// counters of refused messages. A lane is the protocol object of one of the server's sockets.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/lane_counters.h"
#include "tests/common/net/key_testing.h"

namespace tern::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<setup::Setup> MakeJob(uint16_t port) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                     ("tern_job_" + std::to_string(std::rand()) + ".yaml");
  std::ofstream(path) << "servers: [{address: \"127.0.0.1:" << port << "\"}]\n"
                      << "workers: {count: 2}\nmodel: {name: lenet}\ndata: {dir: nowhere}\n"
                      << "train: {batch_total: 4, steps: 10}\n";
  auto setup = setup::MakeSetup(path.string(), {});
  std::filesystem::remove(path);
  EXPECT_TRUE(setup.ok()) << setup.status().message();
  return setup.ok() ? std::move(*setup) : nullptr;
}

TEST(Server, NamesAPortInUse) {
  net::Context context;
  const auto occupied_socket = net::BindLoopback(context);
  const auto job = MakeJob(occupied_socket->port());
  StopSignals signals;
  const auto server = Server::Make(*job, signals, {});
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kAddress);
  EXPECT_THAT(server.status().message(), AllOf(HasSubstr("control socket"),
                                               HasSubstr(std::to_string(occupied_socket->port()))));
}

// A server's data socket that does not know its workers yet, and a peer's socket that is connected
// to this data socket.
class DataSocket : public testing::Test {
 protected:
  DataSocket()
      : lane_loop_(net::Value(LaneLoop::Start(*job_, 0, 1, 99, "127.0.0.1", 0, context_,
                                              {.traffic = &traffic_}, &registry_))),
        peer_(net::Value(net::DealerSocket::Connect(context_, "127.0.0.1", lane_loop_->port(),
                                                    net::SocketOptions()))) {
    EXPECT_TRUE(net::AwaitLink(*peer_, net::DealerSocket::Link::kUp));
  }

  pb::Envelope MakeHello(uint32_t rank, uint64_t incarnation) {
    pb::Envelope envelope;
    *envelope.mutable_hello() = job_->hello;
    envelope.mutable_hello()->set_rank(rank);
    envelope.mutable_hello()->set_incarnation(incarnation);
    envelope.mutable_hello()->set_lane(1);
    envelope.mutable_hello()->set_fresh(true);
    return envelope;
  }
  // Sends a message, and returns the lane's answer.
  pb::Envelope SendAndReceive(const pb::Envelope& message) {
    EXPECT_TRUE(peer_->Send(message).ok());
    const auto received = net::AwaitMessage(*peer_);
    return received.has_value() ? received->envelope : pb::Envelope();
  }

  const std::unique_ptr<setup::Setup> job_ = MakeJob(7500);
  Registry registry_;
  net::Traffic traffic_{registry_};
  net::Context context_;
  const std::unique_ptr<LaneLoop> lane_loop_;
  const std::unique_ptr<net::DealerSocket> peer_;
};

// A data socket with keys, which allows workers 0 and 1.
class KeyedDataSocket : public net::KeyedServer {
 protected:
  pb::Envelope SendAndReceive(net::DealerSocket& peer, const pb::Envelope& message) {
    EXPECT_TRUE(peer.Send(message).ok());
    const auto received = net::AwaitMessage(peer);
    return received.has_value() ? received->envelope : pb::Envelope();
  }

  const std::unique_ptr<setup::Setup> job_ = MakeJob(7500);
  const std::unique_ptr<LaneLoop> lane_loop_ = net::Value(
      LaneLoop::Start(*job_, 0, 1, 99, "127.0.0.1", 0, context_, ServerOptions(), &registry_));
  const std::unique_ptr<net::DealerSocket> peer0_ = net::Value(net::DealerSocket::Connect(
      context_, "127.0.0.1", lane_loop_->port(), {.security = worker0_.get()}));
};

TEST_F(KeyedDataSocket, LetsAWorkerSpeakOnlyForItself) {
  ASSERT_TRUE(net::AwaitLink(*peer0_, net::DealerSocket::Link::kUp));
  pb::Envelope hello;
  *hello.mutable_hello() = job_->hello;
  hello.mutable_hello()->set_incarnation(1);
  hello.mutable_hello()->set_lane(1);
  hello.mutable_hello()->set_fresh(true);
  hello.mutable_hello()->set_rank(1);
  const pb::Envelope refused = SendAndReceive(*peer0_, hello);
  EXPECT_EQ(refused.refuse().code(), 77u);
  EXPECT_EQ(refused.refuse().then(), pb::Refuse::leave);
  EXPECT_THAT(refused.refuse().sentence(), HasSubstr("the key of worker/0 was used to speak for "
                                                     "worker/1"));
  pb::Envelope push;  // gets no answer at all
  push.mutable_push()->set_rank(1);
  ASSERT_TRUE(peer0_->Send(push).ok());
  hello.mutable_hello()->set_rank(0);
  EXPECT_EQ(SendAndReceive(*peer0_, hello).refuse().then(), pb::Refuse::retry);
  EXPECT_EQ(
      registry_
          .GetCounter("tern_server_refused_total", "", {{"lane", "1"}, {"reason", "not_yours"}})
          .value(),
      2u);
}

TEST_F(DataSocket, RefusesAPeerOfAnotherJob) {
  pb::Envelope hello = MakeHello(0, 1);
  hello.mutable_hello()->set_model_digest(job_->hello.model_digest() + 1);
  const pb::Envelope answer = SendAndReceive(hello);
  EXPECT_EQ(answer.refuse().code(), 76u);
  EXPECT_EQ(answer.refuse().then(), pb::Refuse::leave);
  EXPECT_THAT(answer.refuse().sentence(), HasSubstr("the model differs"));
}

TEST_F(DataSocket, TellsAPeerThatIsNotYetAMemberToRetry) {
  const pb::Envelope answer = SendAndReceive(MakeHello(0, 1));
  EXPECT_EQ(answer.refuse().then(), pb::Refuse::retry);
}

TEST_F(DataSocket, WelcomesItsMembersWithTheScheduleAndStopsAfterTheRound) {
  pb::Members members;
  members.set_epoch(1);
  members.set_steps(10);
  members.add_incarnations(11);
  members.add_incarnations(12);
  lane_loop_->SendCommand(members);
  const auto other_peer = net::Value(
      net::DealerSocket::Connect(context_, "127.0.0.1", lane_loop_->port(), net::SocketOptions()));
  ASSERT_TRUE(net::AwaitLink(*other_peer, net::DealerSocket::Link::kUp));
  ASSERT_TRUE(other_peer->Send(MakeHello(1, 12)).ok());
  const pb::Envelope answer = SendAndReceive(MakeHello(0, 11));
  ASSERT_TRUE(answer.has_welcome()) << answer.ShortDebugString();
  EXPECT_EQ(answer.welcome().incarnation(), 99u);

  lane_loop_->SendCommand(StopAfterThisRound{});
  std::vector<uint8_t> codes;
  const protocol::Chunk& chunk = job_->plan.chunk(0, 0);
  const std::vector<float> zeros(431080);
  for (const codec::Segment& segment : chunk.segments)
    job_->plan.codec_of[segment.tensor]->Encode(zeros.data(), segment, {}, {}, &codes);
  const Bytes payload = Bytes::Own(std::move(codes));
  pb::Envelope push;
  push.mutable_push()->mutable_in_round()->set_round(1);
  push.mutable_push()->mutable_in_round()->set_digest(5);
  for (const auto& [rank, socket] : {std::pair{0, peer_.get()}, std::pair{1, other_peer.get()}}) {
    push.mutable_push()->set_rank(static_cast<uint32_t>(rank));
    push.mutable_push()->set_incarnation(static_cast<uint64_t>(11 + rank));
    ASSERT_TRUE(socket->Send(push, payload).ok());
  }
  for (net::DealerSocket* socket : {peer_.get(), other_peer.get()}) {
    pb::Envelope answer_to_push;
    while (!answer_to_push.has_sum()) {
      auto received = net::AwaitMessage(*socket);
      ASSERT_TRUE(received.has_value());
      ASSERT_FALSE(received->envelope.has_refuse()) << received->envelope.ShortDebugString();
      answer_to_push = received->envelope;
    }
    EXPECT_EQ(answer_to_push.sum().of_round().contributors(), 2u);
    EXPECT_EQ(answer_to_push.sum().learning_rate(), 0.01);
    EXPECT_EQ(answer_to_push.sum().of_round().stop_after(), 2u);
  }
}

TEST(LaneCounters, ShowWhatALaneRefused) {
  Registry registry;
  LaneCounters counters(registry, 3);
  protocol::RoundLane lane({}, {});
  protocol::Message message;
  message.head.mutable_members();
  protocol::Sends answers;
  lane.OnMessage(1, message, &answers);
  message.head.mutable_push()->set_incarnation(5);
  lane.OnMessage(1, message, &answers);
  for (int i = 0; i < 2; ++i) counters.Export(lane);
  const std::string metrics_text = registry.PrometheusText();
  EXPECT_THAT(metrics_text, HasSubstr("tern_server_refused_total{lane=\"3\",reason=\"bad\"} 1\n"));
  EXPECT_THAT(metrics_text,
              HasSubstr("tern_server_refused_total{lane=\"3\",reason=\"not_a_member\"} 1\n"));
  EXPECT_THAT(metrics_text,
              HasSubstr("tern_server_refused_total{lane=\"3\",reason=\"stale\"} 0\n"));
}

}  // namespace
}  // namespace tern::server
