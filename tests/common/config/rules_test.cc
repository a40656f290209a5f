// Validation of jobs: rules for single keys, rules between keys, and the form of the error
// messages.
#include <gmock/gmock.h>

#include <string>

#include "tests/common/config/every_key.h"
#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(Rules, NameEveryMissingKeyOnce) {
  EXPECT_THAT(FaultsOf(""),
              ElementsAre(HasSubstr(": servers: saw nothing"), HasSubstr(": workers: saw nothing"),
                          HasSubstr(": model: saw nothing"), HasSubstr(": data: saw nothing"),
                          HasSubstr(": train: saw nothing")));
  EXPECT_THAT(FaultsOf("servers:\nworkers:\nmodel:\ndata:\ntrain:\n"),
              ElementsAre(StartsWith("job.yaml:1:1: servers: saw nothing"),
                          StartsWith("job.yaml:2:1: workers.count: saw nothing"),
                          StartsWith("job.yaml:3:1: model: saw neither name nor net"),
                          StartsWith("job.yaml:4:1: data.dir: saw nothing"),
                          StartsWith("job.yaml:5:1: train.batch_total: saw nothing"),
                          StartsWith("job.yaml:5:1: train: saw neither steps nor epochs")));
  EXPECT_THAT(FaultsOf(SmallJobWith("  - address: 127.0.0.1:7500", "  - data_sockets: 2")),
              ElementsAre(AllOf(StartsWith("job.yaml:2:5: servers[0].address: saw nothing"),
                                HasSubstr("required"))));
}

TEST(Rules, ReportAllFaultsInOrderOfLines) {
  const std::string text =
      "train: {batch_total: 63, steps: 0}\n"
      "workers: {count: 2, threads: 2000}\n"
      "servers: [{address: nowhere}]\n"
      "data: {}\n"
      "model: {name: lenet}\n"
      "exchange:\n"
      "  clip_sigma: 0\n"
      "  chunk_kib: 8192\n"
      "  credit_kib: 64\n";
  EXPECT_THAT(
      FaultsOf(text),
      ElementsAre(
          "job.yaml:1:22: train.batch_total: saw 63; allowed: a multiple of workers.count (2)",
          "job.yaml:1:33: train.steps: saw 0; allowed: a whole number, at least 1",
          "job.yaml:2:30: workers.threads: saw 2000; allowed: a whole number, 1 to 1024",
          StartsWith("job.yaml:3:21: servers[0].address: saw nowhere; allowed: HOST:PORT"),
          StartsWith("job.yaml:4:1: data.dir: saw nothing"),
          "job.yaml:7:15: exchange.clip_sigma: saw 0; allowed: a number, more than 0",
          StartsWith("job.yaml:9:15: exchange.credit_kib: saw 64; allowed: at least "
                     "exchange.chunk_kib (8192)")));
}

TEST(Rules, ReportTheCodeBadJob) {
  EXPECT_EQ(Parse("").status().code(), Code::kBadJob);
  EXPECT_EQ(LoadJob("/nowhere/job.yaml", {}, TestTables()).status().code(), Code::kBadData);
  EXPECT_THAT(LoadJob("/nowhere/job.yaml", {}, TestTables()).status().message(),
              HasSubstr("/nowhere/job.yaml"));
  EXPECT_EQ(LoadJob("/", {}, TestTables()).status().code(), Code::kBadData);
  EXPECT_EQ(LoadJob("/dev/zero", {}, TestTables()).status().code(), Code::kBadJob);
}

TEST(Rules, LimitTheNumberOfLines) {
  std::string text = SmallJob();
  for (int i = 0; i < 1000; ++i) text += "zzz" + std::to_string(i) + ": 1\n";
  const auto faults = FaultsOf(text);
  ASSERT_THAT(faults, SizeIs(201));
  EXPECT_THAT(faults.back(), HasSubstr("and 800 more faults"));
}

TEST(Rules, RefuseANameWithoutATable) {
  EXPECT_FALSE(ParseJob(SmallJob(), "job.yaml", {}, {}).ok());
}

// A line of SmallJob, its replacement, and the expected error; empty: the job is accepted.
struct Case {
  const char* from;
  const char* to;
  const char* more;
  const char* fault;
};
class RuleBetweenKeys : public ::testing::TestWithParam<Case> {};
TEST_P(RuleBetweenKeys, IsHeld) {
  const Case& c = GetParam();
  const std::string text = SmallJobWith(c.from, c.to, c.more);
  const auto faults = FaultsOf(text);
  if (c.fault[0] == '\0') {
    EXPECT_THAT(faults, ElementsAre()) << text;
  } else {
    EXPECT_THAT(faults, ElementsAre(HasSubstr(c.fault))) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Train, RuleBetweenKeys,
    ::testing::Values(
        Case{"steps: 100", "epochs: 0.5", "", ""},
        Case{"steps: 100", "steps: 100\n  epochs: 2", "",
             "12:11: train.epochs: saw both steps and epochs"},
        Case{"  steps: 100\n", "", "",
             "9:1: train: saw neither steps nor epochs; allowed: exactly one"},
        Case{"steps: 100", "epochs: 0", "", "train.epochs: saw 0; allowed: a number, more than 0"},
        Case{"count: 2", "count: 3", "",
             "train.batch_total: saw 64; allowed: a multiple of workers.count (3)"},
        Case{"count: 2", "count: 64", "", ""},
        Case{"count: 2", "count: 0", "", "workers.count: saw 0"},
        Case{"count: 2", "count: 128", "",
             "workers.count: saw 128; allowed: a whole number, 1 to 127"},
        Case{"", "", "  schedule: {name: step}\n", "train.schedule.step_every: saw nothing"},
        Case{"", "", "  schedule: {name: step, step_every: 10}\n", ""},
        Case{"", "", "  optimizer: {momentum: 1.5}\n",
             "train.optimizer.momentum: saw 1.5; allowed: a number, 0 to 1"}));

INSTANTIATE_TEST_SUITE_P(
    WorkersAndModel, RuleBetweenKeys,
    ::testing::Values(Case{"count: 2", "count: 2\n  overrides: [{rank: 2}]", "",
                           "workers.overrides[0].rank: saw 2; allowed: ranks 0 "
                           "to 1"},
                      Case{"count: 2", "count: 2\n  overrides: [{rank: 1}, {rank: 1}]", "",
                           "overrides[1].rank: saw 1 a second time"},
                      Case{"count: 2", "count: 2\n  overrides: [{rank: 1}, {rank: 0}]", "", ""},
                      Case{"count: 2", "count: 2\n  overrides: [{threads: 1}]", "",
                           "overrides[0].rank: saw nothing"},
                      Case{"name: lenet", "padding: valid", "", "model: saw neither name nor net"},
                      Case{"name: lenet", "name: lenet\n  padding: same", "", ""},
                      Case{"name: lenet", "name: lenet\n  net: {name: a}", "",
                           "7:3: model.net: saw both name and net"},
                      Case{"name: lenet", "net: {name: a}", "", ""},
                      Case{"name: lenet", "net: {name: a}\n  padding: same", "",
                           "model.padding: saw same; allowed: valid"}));

INSTANTIATE_TEST_SUITE_P(
    Servers, RuleBetweenKeys,
    ::testing::Values(
        Case{"127.0.0.1:7500", "\"[::1]:7500\"", "", ""},
        Case{"127.0.0.1:7500", "localhost:7500", "", ""},
        Case{"127.0.0.1:7500", "127.8.0.1:65535", "", ""},
        Case{"127.0.0.1:7500", "127.0.0.1:0", "",
             "servers[0].address: saw 127.0.0.1:0; allowed: HOST:PORT"},
        Case{"127.0.0.1:7500", "127.0.0.1:65536", "", "allowed: HOST:PORT"},
        Case{"127.0.0.1:7500", "127.0.0.1", "", "allowed: HOST:PORT"},
        Case{"127.0.0.1:7500", "\"::1:7500\"", "", "allowed: HOST:PORT"},
        Case{"127.0.0.1:7500", "127.0.0.1:x", "", "allowed: HOST:PORT"},
        Case{"127.0.0.1:7500", "127.0.0.256:7500", "", "allowed: HOST:PORT"},
        Case{"127.0.0.1:7500", "tcp://127.0.0.1:7500", "", "allowed: HOST:PORT"},
        Case{"127.0.0.1:7500", "0.0.0.0:7500", "security: none\n",
             "a host to which workers can connect"},
        Case{"127.0.0.1:7500", "10.0.0.1:7500", "", "set security: none, but then anyone"},
        Case{"127.0.0.1:7500", "node3:7500", "", "set security: none"},
        Case{"127.0.0.1:7500", "10.0.0.1:7500", "security: none\n", ""},
        Case{"127.0.0.1:7500", "node3:7500", "security: none\n", ""},
        Case{":7500", ":7500\n    bind_host: 0.0.0.0", "",
             "servers[0].bind_host: saw 0.0.0.0; allowed: a loopback"},
        Case{":7500", ":7500\n    bind_host: 0.0.0.0", "security: none\n", ""},
        Case{":7500", ":7500\n    bind_host: \"a b\"", "",
             "bind_host: saw a b; allowed: a host without a port"},
        Case{"", "", "metrics: {host: 0.0.0.0}\n",
             "metrics.host: saw 0.0.0.0; allowed: a loopback address"},
        Case{"", "", "metrics: {host: \"a:b\"}\n", "metrics.host: saw a:b; allowed: a host"},
        Case{":7500", ":7500\n  - address: 127.0.0.1:7500", "",
             "servers[1].address: saw 127.0.0.1:7500, which another"},
        Case{":7500", ":7500\n  - address: 127.0.0.1:7501", "", ""},
        Case{":7500", ":7500\n    data_ports: [7501, 7502]", "",
             "data_ports: saw 2 ports; allowed: as many as"},
        Case{":7500", ":7500\n    data_ports: [7501, 7502]\n    data_sockets: 2", "", ""},
        Case{":7500", ":7500\n    data_ports: [7500]", "",
             "data_ports[0]: saw 7500, which is taken on 127.0.0.1"},
        Case{":7500", ":7500\n    data_ports: [0]", "",
             "data_ports[0]: saw 0; allowed: a whole number, 1 to 65535"}));

INSTANTIATE_TEST_SUITE_P(
    ExchangeAndFaults, RuleBetweenKeys,
    ::testing::Values(
        Case{"", "", "exchange: {clip: grace, scaler: shared}\n",
             "exchange.clip: saw grace with scaler: shared; allowed: grace with"},
        Case{"", "", "exchange: {clip: grace, scaler: per_worker}\n", ""},
        Case{"", "", "exchange: {clip: grace}\n", ""},
        Case{"", "", "exchange: {clip: official, scaler: per_worker}\n", ""},
        Case{"", "", "exchange: {rules: [{tensors: a}]}\n",
             "exchange.rules[0].codec: saw nothing; allowed: one of fp32"},
        Case{"", "", "exchange: {rules: [{codec: fp33}]}\n", "did you mean fp32?"},
        Case{"", "", "exchange: {chunk_kib: 20000}\n",
             "exchange.credit_kib: saw 16384; allowed: at least"},
        Case{"", "", "faults: {dead_after_s: 1.5}\n",
             "faults.dead_after_s: saw 1.5; allowed: more than"},
        Case{"", "", "faults: {suspect_after_s: 0.25}\n",
             "faults.suspect_after_s: saw 0.25; allowed: more than"},
        Case{"", "", "faults: {heartbeat_ms: 5}\n",
             "faults.heartbeat_ms: saw 5; allowed: a number, 10 to 10000"},
        Case{"", "", "metrics: {port: 65001}\n",
             "metrics.port: saw 65001; allowed: a whole number, at most 65000"},
        Case{"", "", "metrics: {histograms_every_steps: 10}\n",
             "metrics.histograms_every_steps: saw 10 with tensorboard: false; "
             "allowed: 0, because histograms are written to TensorBoard's event files; or set "
             "metrics.tensorboard: true"},
        Case{"", "", "metrics: {histograms_every_steps: 10, tensorboard: true}\n", ""}));

INSTANTIATE_TEST_SUITE_P(
    Cpus, RuleBetweenKeys,
    ::testing::Values(Case{"count: 2", "count: 2\n  cpus: \"0-3,8\"", "", ""},
                      Case{"count: 2", "count: 2\n  cpus: 2", "", ""},
                      Case{"count: 2", "count: 2\n  cpus: 0-", "",
                           "5:9: workers.cpus: saw 0-; allowed: CPU numbers and ranges, 0 to 1023, "
                           "e.g. \"0-3,8\""},
                      Case{"count: 2", "count: 2\n  cpus: a", "", "workers.cpus: saw a; allowed"},
                      Case{"count: 2", "count: 2\n  overrides: [{rank: 1, cpus: \"3-1\"}]", "",
                           "workers.overrides[0].cpus: saw 3-1; allowed: CPU numbers"}));

TEST(Rules, LimitTheNumberOfServers) {
  std::string more;
  for (int i = 0; i < 100; ++i) more += "\n  - address: 127.0.0.1:" + std::to_string(8000 + i);
  EXPECT_THAT(FaultsOf(SmallJobWith(":7500", ":7500" + more)),
              ElementsAre("job.yaml:1:1: servers: saw 101 items; allowed: at most 100"));
}

// If a key applies to some names only, the sibling key `name` must accept these names.
TEST(Rules, RestrictKeysToExistingNames) {
  pb::Job job;
  Populate(&job);
  int keys = 0;
  ForEachScalar(&job, "", false,
                [&](Message* message, const FieldDescriptor* field, const std::string& key, bool) {
                  const auto& names = RuleOf(field).only_for();
                  if (names.empty()) return;
                  ++keys;
                  const auto* beside = message->GetDescriptor()->FindFieldByName("name");
                  ASSERT_NE(beside, nullptr) << key;
                  for (const std::string& name : names) {
                    EXPECT_THAT(TestTables().at(RuleOf(beside).table()), Contains(name)) << key;
                    message->GetReflection()->SetString(message, beside, name);
                    EXPECT_TRUE(IsApplicable(field, *message)) << key << " with " << name;
                  }
                  message->GetReflection()->SetString(message, beside, "another");
                  EXPECT_FALSE(IsApplicable(field, *message)) << key;
                });
  EXPECT_GE(keys, 3);
}

}  // namespace
}  // namespace tern::config
