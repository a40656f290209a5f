// Tests of programs that connect but do not belong to the job (strangers), and of a worker of the
// job that sends invalid messages. No server ends, nothing of these messages enters a gradient sum,
// and metrics count those that ZeroMQ does not drop by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.h>

#include <cstring>
#include <fstream>
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

JobOptions LongJobOptions() {
  JobOptions options;
  options.steps = 300;
  options.batch_total = 32;
  options.yaml =
      "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, dead_after_s: 1}\n";
  return options;
}

// The final weights of an undisturbed run of the job of LongJobOptions.
const std::string& UndisturbedWeights() {
  static const std::string weights = [] {
    TestJob job(LongJobOptions());
    job.StartAll();
    job.ExpectAllEnd(0);
    return job.Weights();
  }();
  return weights;
}

std::string HeaderFrame(const pb::Envelope& envelope) {
  return HeaderOfVersion(envelope, net::kWireVersion);
}

pb::Envelope MakeContribution(pb::Contribution* (pb::Envelope::*kind)(), uint32_t rank,
                              uint64_t incarnation, uint32_t bucket = 0) {
  pb::Envelope envelope;
  pb::Contribution* contribution = (envelope.*kind)();
  contribution->set_bucket(bucket);
  contribution->set_chunk(0);
  contribution->set_rank(rank);
  contribution->set_incarnation(incarnation);
  contribution->mutable_in_round()->set_round(1);
  contribution->mutable_in_round()->set_applied(0);
  contribution->mutable_in_round()->set_digest(1);
  return envelope;
}

// Invalid messages, each as a list of frames (ZeroMQ's parts of a message). No server accepts them.
std::vector<std::vector<std::string>> BrokenMessages() {
  pb::Envelope push = MakeContribution(&pb::Envelope::mutable_push, 0, 7);
  std::string unknown_type = HeaderFrame(push), without_body = HeaderFrame(push),
              other_type = HeaderFrame(push);
  unknown_type[6] = '\x63';                  // type 99
  without_body.resize(net::kPreambleBytes);  // the type says push, but the envelope has no push
  other_type[6] = pb::Envelope::kHeartbeat;  // the type says heartbeat, but the envelope has a push
  std::string unparsable = HeaderFrame(push), damaged = HeaderFrame(push);
  unparsable.resize(unparsable.size() - 2);
  for (std::string* header : {&unknown_type, &without_body, &other_type, &unparsable})
    net::SealHeader(header);
  damaged.back() ^= 1;
  return {{""},
          {"", HeaderFrame(push)},
          {HeaderFrame(push), ""},
          {"TE"},
          {HeaderFrame(push).substr(0, 6)},
          {unparsable},
          {damaged},
          {"GET / HTTP/1.1\r\n\r\n"},
          {unknown_type},
          {without_body},
          {other_type},
          {HeaderOfVersion(push, net::kWireVersion + 1)},
          {HeaderFrame(push) + std::string(net::kMaxHeaderBytes, 'x')},
          {HeaderFrame(push), "one", "two"}};
}

// Valid messages of every type from a peer that is not a member.
std::vector<pb::Envelope> MessagesOfNonMembers() {
  std::vector<pb::Envelope> messages;
  for (auto kind : {&pb::Envelope::mutable_push, &pb::Envelope::mutable_scale,
                    &pb::Envelope::mutable_figures}) {
    messages.push_back(MakeContribution(kind, 0, 7));
    messages.push_back(MakeContribution(kind, 4000000000u, 7, 4000000000u));
  }
  const auto* descriptor = pb::Envelope::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {  // one message of each type, without fields
    pb::Envelope message_without_fields;
    message_without_fields.GetReflection()->MutableMessage(&message_without_fields,
                                                           descriptor->field(i));
    messages.push_back(message_without_fields);
  }
  pb::Envelope envelope;
  for (const uint32_t rank : {0, 1}) {
    for (const uint32_t code : {0, 65}) {
      envelope.mutable_bye()->set_rank(rank);
      // Servers use incarnation (process number) 0 for a rank without a worker.
      envelope.mutable_bye()->set_incarnation(0);
      envelope.mutable_bye()->set_code(code);
      messages.push_back(envelope);
    }
    envelope.mutable_heartbeat()->set_rank(rank);
    envelope.mutable_heartbeat()->set_stop(143);
    messages.push_back(envelope);
  }
  envelope.mutable_pulse()->set_stop(143);
  messages.push_back(envelope);
  envelope.mutable_members()->set_epoch(1000);
  messages.push_back(envelope);
  envelope.mutable_pulse()->set_epoch(1000);
  messages.push_back(envelope);
  envelope.mutable_abort()->set_code(70);
  messages.push_back(envelope);
  envelope.mutable_state_piece()->set_pieces(4000000000u);
  messages.push_back(envelope);
  return messages;
}

// Connects strangers to each port, which send nothing, invalid messages, or messages with false
// claims. They stay connected as long as the returned objects exist.
std::vector<std::unique_ptr<Stranger>> ConnectStrangers(const std::vector<uint16_t>& ports) {
  std::vector<std::unique_ptr<Stranger>> strangers;
  const auto connect = [&strangers](uint16_t port) -> Stranger& {
    return *strangers.emplace_back(std::make_unique<Stranger>(port));
  };
  for (const uint16_t port : ports) {
    connect(port);  // sends nothing
    Stranger& sender_of_broken_messages = connect(port);
    for (const std::vector<std::string>& frames : BrokenMessages())
      sender_of_broken_messages.SendFrames(frames);
    Stranger& sender_of_lies = connect(port);
    for (const pb::Envelope& lie : MessagesOfNonMembers()) {
      sender_of_lies.SendEnvelope(lie);
      sender_of_lies.SendEnvelope(lie, std::string(1000, '\xff'));
    }
    connect(port).SendEnvelope(MakeContribution(&pb::Envelope::mutable_push, 0, 7),
                               std::string(20 << 20, 'x'));
  }
  return strangers;
}

TEST(Strangers, AreCountedAndDoNotDisturbTheJob) {
  TestJob job(LongJobOptions());
  const uint16_t data_port = FreePorts(1).at(0), metrics_port = FreeMetricsPort();
  const std::vector<std::string> arguments = {"--set",
                                              Cat("servers.0.data_ports=[", data_port, "]"),
                                              "--set", Cat("metrics.port=", metrics_port)};
  job.StartServer(0, arguments);
  job.StartWorker(0, arguments);
  ASSERT_TRUE(job.server(0).WaitForErr("worker 0"));
  const auto first_strangers = ConnectStrangers({job.port(0), data_port});
  const auto refused_count = [&](const std::string& reason) {
    return MetricOf(GetMetrics(metrics_port),
                    Cat("tern_net_refused_total{fault=\"", reason, "\"}"));
  };
  // Waits until the last invalid message has arrived at both ports.
  ASSERT_TRUE(WaitUntil([&] { return refused_count("too_many_frames") >= 2; }));
  EXPECT_EQ(refused_count("empty"), 6);
  EXPECT_EQ(refused_count("truncated"), 4);
  EXPECT_EQ(refused_count("not_ours"), 2);
  EXPECT_EQ(refused_count("unknown_type"), 2);
  EXPECT_EQ(refused_count("unset_body"), 2);
  EXPECT_EQ(refused_count("unparsable"), 4);
  EXPECT_EQ(refused_count("damaged"), 2);
  EXPECT_EQ(refused_count("other_version"), 2);
  EXPECT_EQ(refused_count("header_too_large"), 2);
  EXPECT_EQ(refused_count("payload_too_large"), 0) << "libzmq cuts the connection";
  ASSERT_TRUE(WaitUntil([&] {
    const std::string page = GetMetrics(metrics_port);
    return MetricOf(page, "tern_server_refused_total{lane=\"0\",reason=\"not_a_member\"}") >= 6 &&
           MetricOf(page, "tern_server_refused_total{lane=\"1\",reason=\"not_a_member\"}") >= 6;
  }));
  job.StartWorker(1, arguments);
  ASSERT_TRUE(job.WaitForRound(1));
  const auto more_strangers = ConnectStrangers({job.port(0), data_port});
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
}

TEST(Strangers, OfOtherNetworksAreDenied) {
  JobOptions options;
  options.yaml = "security: none\nallow: [10.0.0.0/24, 127.0.0.2]\nfaults: {start_timeout_s: 1}\n";
  TestJob job(options);
  job.StartServer(0);
  TestProgram& worker = job.StartWorker(0);
  ASSERT_TRUE(
      job.WaitForLog("server", 0, "denied a connection from 127.0.0.1: it is in no network"));
  EXPECT_EQ(worker.Wait(), 77);
  EXPECT_THAT(worker.err(), HasSubstr("is in no network of its list `allow`"));
  EXPECT_NE(job.server(0).Wait(), 0);
}

// How much memory a program uses, in bytes.
uint64_t MemoryOf(const TestProgram& program) {
  const std::string status = ReadFile(Cat("/proc/", program.pid(), "/status"));
  const size_t line = status.find("VmRSS:");
  return line == std::string::npos ? 0 : std::stoull(status.substr(line + 6)) * 1024;
}

class Floods : public testing::TestWithParam<const char*> {};

// Strangers say hello very often, with much text in their names, and read no answer.
TEST_P(Floods, OfHellosCostTheServerNeitherMemoryNorDisk) {
  JobOptions options = LongJobOptions();
  options.yaml += Cat("security: ", GetParam(), "\n");
  TestJob job(options);
  const uint16_t metrics_port = FreeMetricsPort();
  const std::vector<std::string> arguments = {"--set", Cat("metrics.port=", metrics_port)};
  job.StartServer(0, arguments);
  job.StartWorker(0, arguments);
  ASSERT_TRUE(job.server(0).WaitForErr("worker 0"));
  const uint64_t memory_before = MemoryOf(job.server(0));
  const size_t log_before = job.server(0).err().size();
  const Time start = Now();
  Stranger one(job.port(0)), other(job.port(0));
  pb::Envelope hello;
  hello.mutable_hello()->set_job(std::string(40'000, '\n'));
  hello.mutable_hello()->set_host(std::string(10'000, '\x1b'));
  // The server hangs up after 16 messages without an answer; libzmq then connects again, until 1000
  // answers wait for each stranger.
  ASSERT_TRUE(WaitUntil([&] {
    for (int i = 0; i < 50; ++i) {
      one.SendEnvelope(hello);
      other.SendEnvelope(hello);
    }
    return MetricOf(GetMetrics(metrics_port), "tern_server_unanswered_total{lane=\"0\"}") >= 1400;
  }));
  const auto seconds = static_cast<uint64_t>((Now() - start) / std::chrono::seconds(1));
  EXPECT_LT(MemoryOf(job.server(0)), memory_before + (16 << 20));
  EXPECT_LT(job.server(0).err().size(), log_before + 2000 * (seconds + 2));
  job.StartWorker(1, arguments);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
}

INSTANTIATE_TEST_SUITE_P(Each, Floods, testing::Values("loopback", "none"),
                         [](const auto& info) { return std::string(info.param); });

// Server 0 of the job, which has been started, must refuse a hello of wire version 7.
void ExpectRefusesAnotherVersion(const TestJob& job) {
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

TEST(Version, AnotherOneIsRefusedByTheServerWhichNamesBoth) {
  TestJob job;
  job.StartServer(0);
  ExpectRefusesAnotherVersion(job);
}

// In a job of programs, the server does not know the tensors before the first has come.
TEST(Version, AnotherOneIsRefusedBeforeTheTensorsAreKnown) {
  TestJob job;
  std::ofstream(job.job_file()) << "name: programs\noutput_dir: " << job.output_dir()
                                << "\nservers: [{address: \"127.0.0.1:" << job.port(0)
                                << "\"}]\nworkers: {count: 2}\ntrain: {compute: client}\n";
  job.StartServer(0);
  ExpectRefusesAnotherVersion(job);
}

// Answers every message to a port in wire version 7 until `worker` has ended. Returns the worker's
// exit code.
int AnswerInAnotherVersion(uint16_t port, TestProgram& worker) {
  void* context = zmq_ctx_new();
  void* router = zmq_socket(context, ZMQ_ROUTER);
  const int linger_ms = 0;
  zmq_setsockopt(router, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  EXPECT_EQ(zmq_bind(router, ("tcp://127.0.0.1:" + std::to_string(port)).c_str()), 0);
  pb::Envelope welcome;
  welcome.mutable_welcome()->set_incarnation(1);
  const std::string header = HeaderOfVersion(welcome, 7);
  WaitUntil([&] {
    char sender_id[256], rest_of_message[4096];
    const int id_bytes = zmq_recv(router, sender_id, sizeof sender_id, ZMQ_DONTWAIT);
    if (id_bytes > 0) {
      zmq_recv(router, rest_of_message, sizeof rest_of_message, 0);
      zmq_send(router, sender_id, static_cast<size_t>(id_bytes), ZMQ_SNDMORE);
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
  EXPECT_EQ(AnswerInAnotherVersion(job.port(0), worker), 76);
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

  // Sends Hello until the server answers with a Welcome, which is returned. Fails the test if no
  // Welcome arrives. `lane` is the number of the server's socket (0: control).
  pb::Welcome Join(Stranger& connection, uint32_t lane) {
    hello_.mutable_hello()->set_lane(lane);
    for (const Time deadline = Now() + std::chrono::seconds(60); Now() < deadline;) {
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
    connection.SendEnvelope(MakeContribution(kind, rank_, kIncarnation, bucket), payload);
    while (const auto answer = connection.Receive(20)) {
      if (!answer->has_refuse()) continue;  // another message, such as a server's heartbeat
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

std::string FloatBytes(size_t count, float value) {
  const std::vector<float> values(count, value);
  return std::string(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
}

TEST(Member, WhatItSaysIsCheckedBeforeItIsUsed) {
  JobOptions options = LongJobOptions();
  // The job waits for worker 1, so it cannot end before the test has sent everything.
  options.yaml = "faults: {on_worker_loss: wait}\n";
  TestJob job(options);
  auto setup = setup::MakeSetup(job.job_file(), {});
  ASSERT_TRUE(setup.ok()) << setup.status().message();
  job.StartServer(0);
  job.StartWorker(0);
  FakeMember fake_member(**setup, 1, options.steps);
  Stranger control(job.port(0));
  const pb::Welcome welcome = fake_member.Join(control, 0);
  ASSERT_EQ(welcome.data_ports_size(), 1);
  Stranger data(static_cast<uint16_t>(welcome.data_ports(0)));
  fake_member.Join(data, 1);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const size_t num_tensors = (*setup)->table.parameters.size();
  const auto scale_field = &pb::Envelope::mutable_scale;
  EXPECT_THAT(fake_member.RefusalOf(control, scale_field, FloatBytes(num_tensors, kNan)),
              ContainsRegex("scale of bucket 0.* round 1 of rank 1: scaler 0 is -?nan"));
  EXPECT_THAT(fake_member.RefusalOf(control, scale_field, FloatBytes(num_tensors, kInfinity)),
              HasSubstr("is inf"));
  EXPECT_THAT(fake_member.RefusalOf(control, scale_field, FloatBytes(num_tensors, -1)),
              HasSubstr("is -1"));
  EXPECT_THAT(fake_member.RefusalOf(control, scale_field, FloatBytes(num_tensors + 1, 1)),
              HasSubstr("bytes"));
  EXPECT_THAT(fake_member.RefusalOf(control, scale_field, FloatBytes(num_tensors, 1), 99),
              HasSubstr("plan"));
  const auto push_field = &pb::Envelope::mutable_push;
  EXPECT_THAT(fake_member.RefusalOf(data, push_field, std::string(100, '\xff')),
              HasSubstr("rank 1"));
  const size_t max_push_bytes = (*setup)->plan.chunk(0, 0).max_push_bytes;
  EXPECT_THAT(fake_member.RefusalOf(data, push_field, std::string(max_push_bytes + 1000, '\0')),
              HasSubstr("rank 1"));
  // fake_member sends nothing more, and the real worker 1 takes its rank.
  job.StartWorker(1);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == UndisturbedWeights());
}

}  // namespace
}  // namespace tern::e2e
