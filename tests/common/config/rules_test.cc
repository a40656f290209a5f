// Tests of the validation of jobs: rules for single keys, rules between keys, and the form of the
// error messages (faults).
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

TEST(Rules, AnEmptyJobHasOneFault) {
  for (const char* text : {"", "{}\n", "# name: mine\n", "---\n"}) {
    EXPECT_THAT(FaultsOf(text),
                ElementsAre(HasSubstr("saw an empty job; allowed: a job with servers, workers, "
                                      "model, data, train; begin with a copy of ")))
        << text;
  }
  EXPECT_THAT(FaultsOf("", {"seed=5"}), SizeIs(5)) << "--set may give all that a job needs";
}

TEST(Rules, NameEveryMissingKeyOnce) {
  EXPECT_THAT(FaultsOf("name: mine\n"),
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
          "job.yaml:1:22: train.batch_total: saw 63; allowed: a multiple of workers.count (2), "
          "such as 62 or 64",
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

// A job and the expected error. The job is SmallJob with `from` replaced by `to`, and `more`
// appended. If the error is empty, the job must be accepted.
struct RuleCase {
  const char* from;
  const char* to;
  const char* more;
  const char* expected_error;
};
class RuleBetweenKeys : public ::testing::TestWithParam<RuleCase> {};
TEST_P(RuleBetweenKeys, IsHeld) {
  const RuleCase& c = GetParam();
  const std::string text = SmallJobWith(c.from, c.to, c.more);
  const auto faults = FaultsOf(text);
  if (c.expected_error[0] == '\0') {
    EXPECT_THAT(faults, ElementsAre()) << text;
  } else {
    EXPECT_THAT(faults, ElementsAre(HasSubstr(c.expected_error))) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Train, RuleBetweenKeys,
    ::testing::Values(
        RuleCase{"steps: 100", "epochs: 0.5", "", ""},
        RuleCase{"steps: 100", "steps: 100\n  epochs: 2", "",
                 "12:11: train.epochs: saw both steps and epochs"},
        RuleCase{"  steps: 100\n", "", "",
                 "9:1: train: saw neither steps nor epochs; allowed: exactly one"},
        RuleCase{"steps: 100", "epochs: 0", "",
                 "train.epochs: saw 0; allowed: a number, more than 0"},
        RuleCase{
            "count: 2", "count: 3", "",
            "train.batch_total: saw 64; allowed: a multiple of workers.count (3), such as 63 or "
            "66"},
        RuleCase{"count: 2", "count: 100", "",
                 "train.batch_total: saw 64; allowed: a multiple of workers.count (100), such as "
                 "100"},
        RuleCase{"count: 2", "count: 64", "", ""},
        RuleCase{"count: 2", "count: 0", "", "workers.count: saw 0"},
        RuleCase{"count: 2", "count: 1025", "",
                 "workers.count: saw 1025; allowed: a whole number, 1 to 1024"},
        RuleCase{"", "", "  schedule: {name: step}\n", "train.schedule.step_every: saw nothing"},
        RuleCase{"", "", "  schedule: {name: step, step_every: 10}\n", ""},
        RuleCase{"", "", "  optimizer: {momentum: 1.5}\n",
                 "train.optimizer.momentum: saw 1.5; allowed: a number, 0 to 1"}));

INSTANTIATE_TEST_SUITE_P(
    WorkersAndModel, RuleBetweenKeys,
    ::testing::Values(RuleCase{"count: 2", "count: 2\n  overrides: [{rank: 2}]", "",
                               "workers.overrides[0].rank: saw 2; allowed: ranks 0 "
                               "to 1"},
                      RuleCase{"count: 2", "count: 2\n  overrides: [{rank: 1}, {rank: 1}]", "",
                               "overrides[1].rank: saw 1 a second time"},
                      RuleCase{"count: 2", "count: 2\n  overrides: [{rank: 1}, {rank: 0}]", "", ""},
                      RuleCase{"count: 2", "count: 2\n  overrides: [{threads: 1}]", "",
                               "overrides[0].rank: saw nothing"},
                      RuleCase{"name: lenet", "padding: valid", "",
                               "model: saw neither name nor net"},
                      RuleCase{"name: lenet", "name: lenet\n  padding: same", "", ""},
                      RuleCase{"name: lenet", "name: lenet\n  net: {name: a}", "",
                               "7:3: model.net: saw both name and net"},
                      RuleCase{"name: lenet", "net: {name: a}", "", ""},
                      RuleCase{"name: lenet", "net: {name: a}\n  padding: same", "",
                               "model.padding: saw same; allowed: valid"}));

INSTANTIATE_TEST_SUITE_P(
    Servers, RuleBetweenKeys,
    ::testing::Values(
        RuleCase{"127.0.0.1:7500", "\"[::1]:7500\"", "", ""},
        RuleCase{"127.0.0.1:7500", "localhost:7500", "", ""},
        RuleCase{"127.0.0.1:7500", "127.8.0.1:65535", "", ""},
        RuleCase{"127.0.0.1:7500", "127.0.0.1:0", "",
                 "servers[0].address: saw 127.0.0.1:0; allowed: HOST:PORT"},
        RuleCase{"127.0.0.1:7500", "127.0.0.1:65536", "", "allowed: HOST:PORT"},
        RuleCase{"127.0.0.1:7500", "127.0.0.1", "", "allowed: HOST:PORT"},
        RuleCase{"127.0.0.1:7500", "\"::1:7500\"", "", "allowed: HOST:PORT"},
        RuleCase{"127.0.0.1:7500", "127.0.0.1:x", "", "allowed: HOST:PORT"},
        RuleCase{"127.0.0.1:7500", "127.0.0.256:7500", "", "allowed: HOST:PORT"},
        RuleCase{"127.0.0.1:7500", "tcp://127.0.0.1:7500", "", "allowed: HOST:PORT"},
        RuleCase{"127.0.0.1:7500", "0.0.0.0:7500", "security: none\n",
                 "a host to which workers can connect"},
        RuleCase{"127.0.0.1:7500", "10.0.0.1:7500", "", "set security: none, but then anyone"},
        RuleCase{"127.0.0.1:7500", "node3:7500", "", "set security: none"},
        RuleCase{"127.0.0.1:7500", "10.0.0.1:7500", "security: none\n", ""},
        RuleCase{"127.0.0.1:7500", "node3:7500", "security: none\n", ""},
        RuleCase{":7500", ":7500\n    bind_host: 0.0.0.0", "",
                 "servers[0].bind_host: saw 0.0.0.0; allowed: a loopback"},
        RuleCase{":7500", ":7500\n    bind_host: 0.0.0.0", "security: none\n", ""},
        RuleCase{"127.0.0.1:7500", "10.0.0.1:7500", "security: curve\n", ""},
        RuleCase{"", "", "security: curve\nkeys:\n", ""},
        RuleCase{"", "", "security: curve\nkeys: {dir: keys}\n", ""},
        RuleCase{"", "", "security: curve\nkeys: {own: 'k.{role}.{rank}', peers: p}\n", ""},
        RuleCase{"", "", "security: curve\nkeys: {own: k}\n",
                 "keys.dir: saw nothing; allowed: the folder that `tern keys make` wrote"},
        RuleCase{"", "", "security: curve\nkeys: {checkpoint: k}\n", "keys.dir: saw nothing"},
        RuleCase{"", "", "security: curve\nkeys: {dir: keys, own: 'k.{number}'}\n",
                 "keys.own: saw k.{number}; allowed: a path in which only {role} and {rank}"},
        RuleCase{"", "", "keys: {dir: keys}\n",
                 "keys: saw keys with security: loopback; allowed: keys only with security: curve"},
        RuleCase{"127.0.0.1:7500", "10.0.0.1:7500", "security: none\nkeys: {dir: keys}\n",
                 "keys: saw keys with security: none"},
        RuleCase{":7500", ":7500\n    bind_host: \"a b\"", "",
                 "bind_host: saw a b; allowed: a host without a port"},
        RuleCase{"", "", "metrics: {host: 0.0.0.0}\n",
                 "metrics.host: saw 0.0.0.0; allowed: a loopback address"},
        RuleCase{"", "", "security: curve\nmetrics: {port: 9100, host: \"*\"}\n",
                 "metrics.host: saw *; allowed: a loopback address, because the page is neither"},
        RuleCase{"", "", "security: curve\nmetrics: {port: 9100, host: \"*\", open: true}\n", ""},
        RuleCase{"", "", "security: curve\nmetrics: {host: \"*\"}\n", ""},
        RuleCase{"", "", "security: none\nmetrics: {port: 9100, host: \"*\"}\n", ""},
        RuleCase{"", "", "security: none\nallow: [10.0.0.0/24, \"fd00::/64\", 10.0.0.7]\n", ""},
        RuleCase{"", "", "security: none\nallow: [10.0.0.0/24, 10.0.0.7/24]\n",
                 "allow[1]: saw 10.0.0.7/24; allowed: a network or an address, e.g. 10.0.0.0/24"},
        RuleCase{"", "", "allow: [10.0.0.0/24]\n",
                 "allow: saw networks with security: loopback; allowed: networks only with"},
        RuleCase{"", "", "metrics: {host: \"a:b\"}\n", "metrics.host: saw a:b; allowed: a host"},
        RuleCase{":7500", ":7500\n  - address: 127.0.0.1:7500", "",
                 "servers[1].address: saw 127.0.0.1:7500, which another"},
        RuleCase{":7500", ":7500\n  - address: 127.0.0.1:7501", "", ""},
        RuleCase{":7500", ":7500\n    data_ports: [7501, 7502]", "",
                 "data_ports: saw 2 ports; allowed: as many as"},
        RuleCase{":7500", ":7500\n    data_ports: [7501, 7502]\n    data_sockets: 2", "", ""},
        RuleCase{":7500", ":7500\n    data_ports: [7500]", "",
                 "data_ports[0]: saw 7500, which is taken on 127.0.0.1"},
        RuleCase{":7500", ":7500\n    data_ports: [0]", "",
                 "data_ports[0]: saw 0; allowed: a whole number, 1 to 65535"}));

INSTANTIATE_TEST_SUITE_P(
    ExchangeAndFaults, RuleBetweenKeys,
    ::testing::Values(
        RuleCase{"", "", "exchange: {clip: grace, scaler: shared}\n",
                 "exchange.clip: saw grace with scaler: shared; allowed: grace with"},
        RuleCase{"", "", "exchange: {clip: grace, scaler: per_worker}\n", ""},
        RuleCase{"", "", "exchange: {clip: grace}\n", ""},
        RuleCase{"", "", "exchange: {clip: official, scaler: per_worker}\n", ""},
        RuleCase{"", "", "exchange: {rules: [{tensors: a}]}\n",
                 "exchange.rules[0].codec: saw nothing; allowed: one of fp32"},
        RuleCase{"", "", "exchange: {rules: [{codec: pf32}]}\n", "did you mean fp32?"},
        RuleCase{"", "", "exchange: {chunk_kib: 20000}\n",
                 "exchange.credit_kib: saw 16384; allowed: at least"},
        RuleCase{
            "", "", "faults: {start_timeout_s: 1e9}\n",
            "faults.start_timeout_s: saw 1e+09; allowed: a number, more than 0, at most 1e+08"},
        RuleCase{"", "", "faults: {dead_after_s: 1.5}\n",
                 "faults.dead_after_s: saw 1.5; allowed: more than"},
        RuleCase{"", "", "faults: {suspect_after_s: 0.25}\n",
                 "faults.suspect_after_s: saw 0.25; allowed: more than"},
        RuleCase{"", "", "faults: {heartbeat_ms: 5}\n",
                 "faults.heartbeat_ms: saw 5; allowed: a number, 10 to 10000"},
        RuleCase{"", "", "metrics: {port: 65001}\n",
                 "metrics.port: saw 65001; allowed: a whole number, at most 65000"},
        RuleCase{"count: 2", "count: 2\n  max: 600",
                 "metrics: {port: 65000}\nfaults: {on_worker_loss: shrink}\n",
                 "metrics.port: saw 65000; allowed: at most 64836, because worker r serves"},
        RuleCase{"count: 2", "count: 2\n  max: 600",
                 "metrics: {port: 65000, same_port: true}\nfaults: {on_worker_loss: shrink}\n", ""},
        RuleCase{"", "", "metrics: {port: 65000}\n", ""},
        RuleCase{"", "", "metrics: {histograms_every_steps: 10}\n",
                 "metrics.histograms_every_steps: saw 10 with tensorboard: false; "
                 "allowed: 0, because histograms are written to TensorBoard's event files; or set "
                 "metrics.tensorboard: true"},
        RuleCase{"", "", "metrics: {histograms_every_steps: 10, tensorboard: true}\n", ""},
        RuleCase{"", "", "checkpoints: {accept: [train.optimizer, train.speed]}\n",
                 "checkpoints.accept[1]: saw train.speed; allowed: a key or section of a job"},
        RuleCase{"", "", "checkpoints: {accept: [train.optimizer, seed]}\n", ""}));

INSTANTIATE_TEST_SUITE_P(
    Gpus, RuleBetweenKeys,
    ::testing::Values(
        RuleCase{"count: 2", "count: 2\n  device: cuda\n  gpu: 1", "", ""},
        RuleCase{"count: 2", "count: 2\n  overrides: [{rank: 1, device: cuda, gpu: 3}]", "", ""},
        RuleCase{"count: 2", "count: 2\n  device: cuda\n  overrides: [{rank: 1, gpu: 3}]", "", ""},
        RuleCase{"count: 2", "count: 2\n  gpu: 1", "",
                 "5:8: workers.gpu: saw the number of a GPU, with device: cpu; allowed: device: "
                 "cuda beside it, or no such key"},
        RuleCase{"count: 2",
                 "count: 2\n  device: cuda\n  overrides: [{rank: 1, device: cpu, gpu: 0}]", "",
                 "workers.overrides[0].gpu: saw the number of a GPU, with device: cpu"}));

INSTANTIATE_TEST_SUITE_P(
    Cpus, RuleBetweenKeys,
    ::testing::Values(
        RuleCase{"count: 2", "count: 2\n  cpus: \"0-3,8\"", "", ""},
        RuleCase{"count: 2", "count: 2\n  cpus: 2", "", ""},
        RuleCase{"count: 2", "count: 2\n  cpus: 0-", "",
                 "5:9: workers.cpus: saw 0-; allowed: CPU numbers and ranges, 0 to 1023, "
                 "e.g. \"0-3,8\""},
        RuleCase{"count: 2", "count: 2\n  cpus: a", "", "workers.cpus: saw a; allowed"},
        RuleCase{"count: 2", "count: 2\n  overrides: [{rank: 1, cpus: \"3-1\"}]", "",
                 "workers.overrides[0].cpus: saw 3-1; allowed: CPU numbers"}));

TEST(Rules, LimitTheNumberOfServers) {
  std::string more;
  for (int i = 0; i < 100; ++i) more += "\n  - address: 127.0.0.1:" + std::to_string(8000 + i);
  EXPECT_THAT(FaultsOf(SmallJobWith(":7500", ":7500" + more)),
              ElementsAre("job.yaml:1:1: servers: saw 101 items; allowed: at most 100"));
}

// Some keys apply only if the key `name` beside them has certain values. These values must be
// allowed names.
TEST(Rules, RestrictKeysToExistingNames) {
  pb::Job job;
  Populate(&job);
  int num_restricted_keys = 0;
  ForEachScalar(&job, "", false,
                [&](Message* message, const FieldDescriptor* field, const std::string& key, bool) {
                  const auto& names = RuleOf(field).only_for();
                  if (names.empty()) return;
                  ++num_restricted_keys;
                  const auto* name_field = message->GetDescriptor()->FindFieldByName("name");
                  ASSERT_NE(name_field, nullptr) << key;
                  for (const std::string& name : names) {
                    EXPECT_THAT(TestTables().at(RuleOf(name_field).table()), Contains(name)) << key;
                    message->GetReflection()->SetString(message, name_field, name);
                    EXPECT_TRUE(IsApplicable(field, *message)) << key << " with " << name;
                  }
                  message->GetReflection()->SetString(message, name_field, "another");
                  EXPECT_FALSE(IsApplicable(field, *message)) << key;
                });
  EXPECT_GE(num_restricted_keys, 3);
}

}  // namespace
}  // namespace tern::config
