// Tests of jobs of real processes with every codec, three workers and two servers, where either the
// workers or the servers hold the parameters; a job with several codecs; and a job with onebit
// whose server is killed.
#include "common/codec/codecs.h"

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "common/codec/codec.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

// Settings of a codec with which a small network learns in a few steps.
std::vector<std::string> SettingsOf(const std::string& codec) {
  if (codec == "topk") return {"exchange.topk.ratio=0.1"};
  if (codec == "threshold") return {"exchange.threshold.value=0.01"};
  if (codec == "adaptive") return {"exchange.adaptive.share=0.1"};
  if (codec == "adacomp") return {"exchange.adacomp.bin_elements=50"};
  if (codec == "qsgd_shared" || codec == "qsgd_shared_ans") return {"exchange.scaler_elements=512"};
  return {};
}

std::vector<std::string> ArgumentsFor(const std::string& codec, std::vector<std::string> settings) {
  settings.push_back("exchange.codec=" + codec);
  for (const std::string& key : SettingsOf(codec)) settings.push_back(key);
  std::vector<std::string> arguments;
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  return arguments;
}

void ExpectHasLearned(TestJob& job) {
  job.ExpectAllEnd(0);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_EQ(summary["refusals"], 0);
  EXPECT_LE(summary["test_loss"], 2.3) << "has learned nothing: log(10) is 2.303";
}

class EveryCodec : public testing::TestWithParam<std::string> {};

TEST_P(EveryCodec, TrainsReplicasThatStayEqual) {
  TestJob job({.servers = 2, .workers = 3, .steps = 30, .batch_total = 12});
  job.StartAll(ArgumentsFor(GetParam(), {"exchange.chunk_kib=256"}));
  ExpectHasLearned(job);
}

// The codecs whose codes a server can decode alone.
std::vector<std::string> CodecsForCentralParameters() {
  std::vector<std::string> names;
  for (const std::string& name : codec::CodecNames())
    if (codec::CanDecodeAlone(name)) names.push_back(name);
  return names;
}

class EveryCentralCodec : public testing::TestWithParam<std::string> {};

TEST_P(EveryCentralCodec, TrainsCentralParameters) {
  TestJob job({.servers = 2, .workers = 3, .steps = 30, .batch_total = 12});
  // With `pull: changes`, the servers send with the same codec, or with onebit if that codec is
  // stochastic, which is not allowed there.
  const auto codec = codec::MakeCodec(GetParam(), {});
  ASSERT_TRUE(codec.ok());
  const std::string pull_codec = (*codec)->is_stochastic() ? "onebit" : GetParam();
  job.StartAll(ArgumentsFor(GetParam(), {"train.parameters=central", "exchange.pull=changes",
                                         "exchange.pull_codec=" + pull_codec}));
  ExpectHasLearned(job);
}

INSTANTIATE_TEST_SUITE_P(Of, EveryCodec, testing::ValuesIn(codec::CodecNames()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Of, EveryCentralCodec, testing::ValuesIn(CodecsForCentralParameters()),
                         [](const auto& info) { return info.param; });

// Codecs with shared scalers, with exact sums and with floats, in one model.
TEST(SeveralCodecs, TrainReplicasThatStayEqual) {
  TestJob job({.servers = 2, .workers = 3, .steps = 30, .batch_total = 12});
  job.StartAll({"--set",
                "exchange.rules=[{tensors: \"*.bias\", codec: fp32}, {tensors: \"conv1*\", codec: "
                "ternary}, {tensors: \"conv2*\", codec: qsgd}]",
                "--set", "exchange.codec=qsgd_shared", "--set", "exchange.qsgd_shared.bits=8",
                "--set", "exchange.scaler_elements=512", "--set", "exchange.qsgd.sums=exact"});
  ExpectHasLearned(job);
}

// Random codes of rotated gradients, in algorithms of which one has two rounds in progress, and in
// one model with codecs that are not rotated.
class Rotated : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Rotated, TrainsReplicasThatStayEqual) {
  TestJob job({.servers = 2, .workers = 2, .steps = 30, .batch_total = 12});
  std::vector<std::string> arguments;
  for (const std::string& setting : GetParam())
    arguments.insert(arguments.end(), {"--set", setting});
  for (const char* setting : {"exchange.rotate=4096", "exchange.chunk_kib=256"})
    arguments.insert(arguments.end(), {"--set", setting});
  job.StartAll(arguments);
  ExpectHasLearned(job);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Rotated,
    testing::Values(std::vector<std::string>{"exchange.codec=ternary"},
                    std::vector<std::string>{"train.algorithm=odsgd", "exchange.scaler=previous",
                                             "train.odsgd.warmup_steps=2"},
                    std::vector<std::string>{
                        "exchange.rules=[{tensors: \"*.bias\", codec: fp32}, {tensors: "
                        "\"conv1*\", codec: topk}, {tensors: \"conv2*\", codec: qsgd}]",
                        "exchange.codec=qsgd_shared", "exchange.qsgd_shared.bits=8",
                        "exchange.topk.ratio=0.1", "exchange.scaler_elements=8192"}));

// A killed server loses the rounding errors that its codec had kept for later rounds, but the
// replicas stay equal.
TEST(KilledServer, LeavesReplicasOfOneBitCodesEqual) {
  TestJob job({.workers = 2, .steps = 300, .yaml = "faults: {on_worker_loss: wait}\n"});
  job.StartAll(ArgumentsFor("onebit", {}));
  ASSERT_TRUE(job.WaitForRound(5));
  job.server(0).Signal(SIGKILL);
  job.server(0).Wait();
  job.StartServer(0, ArgumentsFor("onebit", {}));
  ExpectHasLearned(job);
}

}  // namespace
}  // namespace tern::e2e
