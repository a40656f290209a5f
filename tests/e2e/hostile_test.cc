// Connections of programs that do not belong to the job (strangers), and a worker of the job that
// sends invalid messages. No server ends, nothing of these messages enters a gradient sum, and
// metrics count all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/net/frame.h"
#include "setup/setup.h"
#include "tests/e2e/job_fixture.h"
#include "tests/e2e/stranger.h"

namespace tern::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

JobOptions SomeJob() {
  JobOptions options;
  options.steps = 120;
  options.batch_total = 32;
  options.yaml =
      "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1}\n";
  return options;
}

// The final weights of SomeJob in an undisturbed run.
const std::string& UndisturbedWeights() {
  static const std::string weights = [] {
    TestJob job(SomeJob());
    job.StartAll();
    job.ExpectAllEnd(0);
    return job.Weights();
  }();
  return weights;
}

std::string Header(const pb::Envelope& envelope) {
  return HeaderOfVersion(envelope, net::kWireVersion);
}

pb::Envelope Contribution(pb::Contribution* (pb::Envelope::*kind)(), uint32_t rank,
                          uint64_t incarnation, uint32_t bucket = 0) {
  pb::Envelope envelope;
  pb::Contribution* c = (envelope.*kind)();
  c->set_bucket(bucket);
  c->set_chunk(0);
  c->set_rank(rank);
  c->set_incarnation(incarnation);
  c->mutable_in_round()->set_round(1);
  c->mutable_in_round()->set_applied(0);
  c->mutable_in_round()->set_digest(1);
  return envelope;
}

// Messages whose frames no server may accept.
std::vector<std::vector<std::string>> BrokenMessages() {
  pb::Envelope push = Contribution(&pb::Envelope::mutable_push, 0, 7);
  std::string unknown = Header(push), unset = Header(push), wrong = Header(push);
  unknown[6] = '\x63';                  // type 99
  unset.resize(net::kPreambleBytes);    // the type says push, but the envelope has no push
  wrong[6] = pb::Envelope::kHeartbeat;  // the type says heartbeat, but the envelope has a push
  return {{""},
          {"", Header(push)},
          {Header(push), ""},
          {"TE"},
          {Header(push).substr(0, 6)},
          {Header(push).substr(0, Header(push).size() - 2)},
          {"GET / HTTP/1.1\r\n\r\n"},
          {unknown},
          {unset},
          {wrong},
          {HeaderOfVersion(push, net::kWireVersion + 1)},
          {Header(push) + std::string(net::kMaxHeaderBytes, 'x')},
          {Header(push), "one", "two"}};
}

// Valid messages of every type from a peer that is not a member.
std::vector<pb::Envelope> MessagesOfNonMembers() {
  std::vector<pb::Envelope> lies;
  for (auto kind : {&pb::Envelope::mutable_push, &pb::Envelope::mutable_scale,
                    &pb::Envelope::mutable_figures}) {
    lies.push_back(Contribution(kind, 0, 7));
    lies.push_back(Contribution(kind, 4000000000u, 7, 4000000000u));
  }
  const auto* descriptor = pb::Envelope::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {  // one message of each type, without fields
    pb::Envelope empty;
    empty.GetReflection()->MutableMessage(&empty, descriptor->field(i));
    lies.push_back(empty);
  }
  pb::Envelope envelope;
  for (const uint32_t rank : {0, 1}) {
    for (const uint32_t code :
         {0, 65}) {  // with incarnation 0, which servers use for a rank without a worker
      envelope.mutable_bye()->set_rank(rank);
      envelope.mutable_bye()->set_incarnation(0);
      envelope.mutable_bye()->set_code(code);
      lies.push_back(envelope);
    }
    envelope.mutable_heartbeat()->set_rank(rank);
    envelope.mutable_heartbeat()->set_stop(143);
    lies.push_back(envelope);
  }
  envelope.mutable_pulse()->set_stop(143);
  lies.push_back(envelope);
  envelope.mutable_members()->set_epoch(1000);
  lies.push_back(envelope);
  envelope.mutable_pulse()->set_epoch(1000);
  lies.push_back(envelope);
  envelope.mutable_abort()->set_code(70);
  lies.push_back(envelope);
  envelope.mutable_state_piece()->set_pieces(4000000000u);
  lies.push_back(envelope);
  return lies;
}

// Connects strangers that send nothing, invalid messages, or lies to each port. They stay connected
// as long as the returned objects exist.
std::vector<std::unique_ptr<Stranger>> ConnectStrangers(const std::vector<uint16_t>& ports) {
  std::vector<std::unique_ptr<Stranger>> strangers;
  const auto add = [&strangers](uint16_t port) -> Stranger& {
    return *strangers.emplace_back(std::make_unique<Stranger>(port));
  };
  for (const uint16_t port : ports) {
    add(port);  // sends nothing
    Stranger& broken = add(port);
    for (const std::vector<std::string>& frames : BrokenMessages()) broken.SendFrames(frames);
    Stranger& liar = add(port);
    for (const pb::Envelope& lie : MessagesOfNonMembers()) {
      liar.SendEnvelope(lie);
      liar.SendEnvelope(lie, std::string(1000, '\xff'));
    }
    add(port).SendEnvelope(Contribution(&pb::Envelope::mutable_push, 0, 7),
                           std::string(20 << 20, 'x'));
  }
  return strangers;
}

TEST(Strangers, AreCountedAndDoNotDisturbTheJob) {
  TestJob job(SomeJob());
  const uint16_t data_port = FreePorts(1).at(0), metrics = FreeMetricsPort();
  const std::vector<std::string> more = {"--set", Cat("servers.0.data_ports=[", data_port, "]"),
                                         "--set", Cat("metrics.port=", metrics)};
  job.StartServer(0, more);
  job.StartWorker(0, more);
  ASSERT_TRUE(job.server(0).WaitForErr("worker 0"));
  const auto first = ConnectStrangers({job.port(0), data_port});
  const auto refused = [&](const std::string& fault) {
    return MetricOf(GetMetrics(metrics), Cat("tern_net_refused_total{fault=\"", fault, "\"}"));
  };
  // Waits until the last invalid message has arrived at both ports.
  ASSERT_TRUE(WaitUntil([&] { return refused("too_many_frames") >= 2; }));
  EXPECT_EQ(refused("empty"), 6);
  EXPECT_EQ(refused("truncated"), 4);
  EXPECT_EQ(refused("not_ours"), 2);
  EXPECT_EQ(refused("unknown_type"), 2);
  EXPECT_EQ(refused("unset_body"), 2);
  EXPECT_EQ(refused("unparsable"), 4);
  EXPECT_EQ(refused("other_version"), 2);
  EXPECT_EQ(refused("header_too_large"), 2);
  EXPECT_EQ(refused("payload_too_large"), 0) << "libzmq cuts the connection";
  ASSERT_TRUE(WaitUntil([&] {
    const std::string page = GetMetrics(metrics);
    return MetricOf(page, "tern_server_refused_total{lane=\"0\",reason=\"not_a_member\"}") >= 6 &&
           MetricOf(page, "tern_server_refused_total{lane=\"1\",reason=\"not_a_member\"}") >= 6;
  }));
  job.StartWorker(1, more);
  ASSERT_TRUE(job.WaitForRound(1));
  const auto second = ConnectStrangers({job.port(0), data_port});
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
}

TEST(Version, AnotherOneIsRefusedByTheServerWhichNamesBoth) {
  TestJob job;
  job.StartServer(0);
  Stranger peer(job.port(0));
  pb::Envelope hello;
  hello.mutable_hello()->set_job("test");
  peer.SendFrames({HeaderOfVersion(hello, 7)});
  const auto answer = peer.Receive();
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->has_refuse());
  EXPECT_EQ(answer->refuse().code(), 76u);
  EXPECT_THAT(
      answer->refuse().sentence(),
      AllOf(HasSubstr("wire version 7"), HasSubstr(Cat("wire version ", net::kWireVersion))));
}

// Answers every message to a port in wire version 7 until `worker` has ended. Returns the worker's
// exit code.
int WaitAtAnotherVersion(uint16_t port, TestProgram& worker) {
  void* context = zmq_ctx_new();
  void* router = zmq_socket(context, ZMQ_ROUTER);
  const int linger_ms = 0;
  zmq_setsockopt(router, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  EXPECT_EQ(zmq_bind(router, ("tcp://127.0.0.1:" + std::to_string(port)).c_str()), 0);
  pb::Envelope welcome;
  welcome.mutable_welcome()->set_incarnation(1);
  const std::string header = HeaderOfVersion(welcome, 7);
  WaitUntil([&] {
    char id[256], rest[4096];
    const int size = zmq_recv(router, id, sizeof id, ZMQ_DONTWAIT);
    if (size > 0) {
      zmq_recv(router, rest, sizeof rest, 0);
      zmq_send(router, id, static_cast<size_t>(size), ZMQ_SNDMORE);
      zmq_send(router, header.data(), header.size(), 0);
    }
    return !worker.running();
  });
  zmq_close(router);
  zmq_ctx_term(context);
  return worker.Wait();
}

TEST(Version, AWorkerLeavesAServerOfAnotherOneAndNamesBoth) {
  TestJob job;
  TestProgram& worker = job.StartWorker(0);
  EXPECT_EQ(WaitAtAnotherVersion(job.port(0), worker), 76);
  EXPECT_THAT(worker.err(), AllOf(HasSubstr("server shard 0"), HasSubstr("wire version 7"),
                                  HasSubstr(Cat("wire version ", net::kWireVersion))));
}

// Sends messages to a server as if it were a worker of the job.
class FakeMember {
 public:
  FakeMember(const setup::Setup& setup, uint32_t rank, uint64_t steps) : rank_(rank) {
    pb::Hello* hello = hello_.mutable_hello();
    *hello = setup.hello;
    hello->set_role(pb::Hello::worker);
    hello->set_rank(rank);
    hello->set_incarnation(kIncarnation);
    hello->set_applied(0);
    hello->set_fresh(true);
    hello->set_epoch(0);
    hello->set_steps(steps);
  }

  // Sends Hello until the server answers with a Welcome, and returns that. Fails the test if no
  // Welcome arrives. `lane` is the number of the server's socket (0: control).
  pb::Welcome Join(Stranger& connection, uint32_t lane) {
    hello_.mutable_hello()->set_lane(lane);
    for (const Time until = Now() + std::chrono::seconds(60); Now() < until;) {
      connection.SendEnvelope(hello_);
      const auto answer = connection.Receive(0.2);
      if (answer.has_value() && answer->has_welcome()) return answer->welcome();
    }
    ADD_FAILURE() << "no welcome";
    return {};
  }

  // Sends the contribution and returns the sentence of the server's refusal.
  std::string RefusalOf(Stranger& connection, pb::Contribution* (pb::Envelope::*kind)(),
                        const std::string& payload, uint32_t bucket = 0) {
    connection.SendEnvelope(Contribution(kind, rank_, kIncarnation, bucket), payload);
    while (const auto answer = connection.Receive(20)) {
      if (!answer->has_refuse()) continue;  // another message, such as a pulse
      EXPECT_EQ(answer->refuse().code(), 76u);
      return answer->refuse().sentence();
    }
    return "";
  }

 private:
  static constexpr uint64_t kIncarnation = 4711;
  const uint32_t rank_;
  pb::Envelope hello_;
};

std::string Floats(size_t count, float value) {
  const std::vector<float> values(count, value);
  return std::string(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
}

TEST(Member, WhatItSaysIsCheckedBeforeItIsUsed) {
  JobOptions options = SomeJob();
  // Without this the job might end before the test has sent everything.
  options.yaml = "faults: {on_worker_loss: wait}\n";
  TestJob job(options);
  auto setup = setup::MakeSetup(job.job_file(), {});
  ASSERT_TRUE(setup.ok()) << setup.status().message();
  job.StartServer(0);
  job.StartWorker(0);
  FakeMember fake(**setup, 1, options.steps);
  Stranger control(job.port(0));
  const pb::Welcome welcome = fake.Join(control, 0);
  ASSERT_EQ(welcome.data_ports_size(), 1);
  Stranger data(static_cast<uint16_t>(welcome.data_ports(0)));
  fake.Join(data, 1);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const size_t tensors = (*setup)->table.parameters.size();
  const auto scale = &pb::Envelope::mutable_scale;
  EXPECT_THAT(fake.RefusalOf(control, scale, Floats(tensors, kNan)),
              ContainsRegex("scale of bucket 0.* round 1 of rank 1: scaler 0 is -?nan"));
  EXPECT_THAT(fake.RefusalOf(control, scale, Floats(tensors, kInfinity)), HasSubstr("is inf"));
  EXPECT_THAT(fake.RefusalOf(control, scale, Floats(tensors, -1)), HasSubstr("is -1"));
  EXPECT_THAT(fake.RefusalOf(control, scale, Floats(tensors + 1, 1)), HasSubstr("bytes"));
  EXPECT_THAT(fake.RefusalOf(control, scale, Floats(tensors, 1), 99), HasSubstr("plan"));
  const auto push = &pb::Envelope::mutable_push;
  EXPECT_THAT(fake.RefusalOf(data, push, std::string(100, '\xff')), HasSubstr("rank 1"));
  EXPECT_THAT(fake.RefusalOf(data, push, std::string(431080 / 4 + 1000, '\0')),
              HasSubstr("rank 1"));
  // The false worker sends nothing more, and the real worker 1 takes its rank.
  job.StartWorker(1);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
}

}  // namespace
}  // namespace tern::e2e
