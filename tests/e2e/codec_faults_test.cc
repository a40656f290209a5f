// Tests that lost processes do not change the result of jobs with codes of several bits, rotated
// codes and several codecs in one model. Three workers and two servers. Under `wait`, a worker and
// then a server are killed and come back: the job ends with the weights of an undisturbed run, byte
// for byte. Under `shrink`, the job goes on without a killed worker, and the replicas stay equal.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

struct CodecSettings {
  std::string name;
  std::vector<std::string> settings;
};

// The sums of three workers' codes of 8 bits are beyond 127. conv1 and conv2 have blocks of the
// rotation that are not full.
const CodecSettings kCases[] = {
    {"QsgdSharedOf2Bits", {"codec=qsgd_shared", "qsgd_shared.bits=2", "scaler_elements=512"}},
    {"QsgdSharedOf4Bits", {"codec=qsgd_shared", "qsgd_shared.bits=4", "scaler_elements=512"}},
    {"QsgdSharedOf8Bits", {"codec=qsgd_shared", "qsgd_shared.bits=8", "scaler_elements=512"}},
    {"QsgdSharedAnsOf4Bits",
     {"codec=qsgd_shared_ans", "qsgd_shared.bits=4", "scaler_elements=4096"}},
    {"QsgdSharedAnsOf8Bits",
     {"codec=qsgd_shared_ans", "qsgd_shared.bits=8", "scaler_elements=4096"}},
    {"RotatedTernary", {"codec=ternary", "rotate=4096"}},
    {"RotatedTernaryWithScalersOfBlocks", {"codec=ternary", "rotate=4096", "scaler_elements=4096"}},
    {"QsgdWithExactSums", {"codec=qsgd", "qsgd.sums=exact"}},
    {"SeveralCodecs",
     {"rules=[{tensors: \"*.bias\", codec: fp32}, {tensors: \"conv1*\", codec: ternary_ans}, "
      "{tensors: \"conv2*\", codec: qsgd}, {tensors: \"*2.weight\", codec: qsgd_shared}]",
      "codec=qsgd_shared_ans", "qsgd_shared.bits=8", "scaler_elements=4096", "qsgd.sums=exact",
      "rotate=4096"}},
};

class FaultsWith : public testing::TestWithParam<CodecSettings> {
 protected:
  // A process counts as lost after a second.
  static JobOptions Options(uint64_t steps, const std::string& policy) {
    return {.servers = 2,
            .workers = 3,
            .min_workers = policy == "shrink" ? 2u : 0u,
            .steps = steps,
            .batch_total = 12,
            .yaml = Cat("faults: {on_worker_loss: ", policy,
                        ", heartbeat_ms: 50, suspect_after_s: 0.5, dead_after_s: 1}\n"
                        "exchange: {chunk_kib: 256}\n")};
  }
  static std::vector<std::string> Arguments() {
    std::vector<std::string> arguments;
    for (const std::string& setting : GetParam().settings)
      arguments.insert(arguments.end(), {"--set", "exchange." + setting});
    return arguments;
  }
  static void KillAndWait(TestProgram& program) {
    program.Signal(SIGKILL);
    ASSERT_EQ(program.Wait(), 128 + SIGKILL) << "it had ended before";
  }
};

TEST_P(FaultsWith, AWorkerAndAServerThatComeBackChangeNoByte) {
  const JobOptions options = Options(150, "wait");
  TestJob undisturbed_job(options);
  undisturbed_job.StartAll(Arguments());
  undisturbed_job.ExpectAllEnd(0);

  TestJob job(options);
  job.StartAll(Arguments());
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(1));
  job.StartWorker(1, Arguments());
  ASSERT_TRUE(job.worker(1).WaitForErr("installed the state after round"));
  ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 5));
  KillAndWait(job.server(1));
  job.StartServer(1, Arguments());
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  EXPECT_TRUE(job.Weights() == undisturbed_job.Weights()) << "other weights than without faults";
}

TEST_P(FaultsWith, AWorkerThatIsLostForGoodLeavesEqualReplicas) {
  TestJob job(Options(1'000'000, "shrink"));
  job.StartAll(Arguments());
  ASSERT_TRUE(job.WaitForRound(5));
  KillAndWait(job.worker(1));
  ASSERT_TRUE(job.server(0).WaitForErr("going on with 2 of 3 workers"));
  ASSERT_TRUE(job.WaitForRound(job.Progress().value("rounds", uint64_t{0}) + 10));
  job.server(0).Signal(SIGTERM);
  for (TestProgram* program : {&job.server(0), &job.server(1), &job.worker(0), &job.worker(2)})
    EXPECT_EQ(program->Wait(), 143);
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_EQ(summary["refusals"], 0);
  EXPECT_EQ(summary["lost"], nlohmann::json::array({1}));
}

INSTANTIATE_TEST_SUITE_P(Codes, FaultsWith, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tern::e2e
