// Ternary codes, and those of qsgd_shared, with scalers of the previous round, and with one scaler
// for every 5000 elements, in jobs of real processes. (A ternary code -1, 0 or 1 stands for the
// code times the scaler.) Replicas stay equal, and a worker that is killed and comes back encodes
// with the same scalers as the other workers.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

struct PreviousCase {
  std::string algorithm, codec;
};

std::vector<std::string> ArgumentsFor(const PreviousCase& c) {
  std::vector<std::string> arguments;
  for (const std::string& setting :
       {"train.algorithm=" + c.algorithm, "exchange.codec=" + c.codec,
        std::string("exchange.scaler=previous"), std::string("exchange.scaler_elements=5000"),
        std::string("exchange.chunk_kib=256")})
    arguments.insert(arguments.end(), {"--set", setting});
  if (c.algorithm == "odsgd")
    arguments.insert(arguments.end(), {"--set", "train.odsgd.warmup_steps=2"});
  return arguments;
}

// Options of a job that waits for the return of a lost worker.
JobOptions WaitingJobOptions() {
  return {.servers = 2,
          .workers = 3,
          .steps = 300,
          .batch_total = 12,
          .yaml =
              "faults: {on_worker_loss: wait, heartbeat_ms: 50, suspect_after_s: 0.4, "
              "dead_after_s: 1}\n"};
}

class PreviousScalers : public testing::TestWithParam<PreviousCase> {};

TEST_P(PreviousScalers, ComeToAReturningWorkerFromTheOthers) {
  TestJob undisturbed_job(WaitingJobOptions());
  undisturbed_job.StartAll(ArgumentsFor(GetParam()));
  undisturbed_job.ExpectAllEnd(0);
  const nlohmann::json summary = undisturbed_job.Output("server.0.json");
  EXPECT_EQ(summary["replicas_agree"], true);
  EXPECT_LE(summary["test_loss"], 2.3) << "has learned nothing: log(10) is 2.303";

  TestJob job(WaitingJobOptions());
  job.StartAll(ArgumentsFor(GetParam()));
  ASSERT_TRUE(job.WaitForRound(5));
  job.worker(1).Signal(SIGKILL);
  job.worker(1).Wait();
  job.StartWorker(1, ArgumentsFor(GetParam()));
  job.ExpectAllEnd(0);
  EXPECT_NE(job.worker(1).err().find("installed the state after round"), std::string::npos);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
  // With odsgd the new worker starts with local weights equal to the global ones, so its gradients
  // differ from those of an undisturbed run.
  if (GetParam().algorithm == "ssgd") {
    EXPECT_TRUE(job.Weights() == undisturbed_job.Weights())
        << "other weights than without the fault";
  }
}

INSTANTIATE_TEST_SUITE_P(Under, PreviousScalers,
                         testing::Values(PreviousCase{"ssgd", "ternary"},
                                         PreviousCase{"odsgd", "ternary"},
                                         PreviousCase{"ssgd", "qsgd_shared"}),
                         [](const auto& info) {
                           return info.param.algorithm + "_" + info.param.codec;
                         });

TEST(KilledServer, KeepsTheScalersThatCameWithSums) {
  TestJob job(WaitingJobOptions());
  job.StartAll(ArgumentsFor({"ssgd", "ternary"}));
  ASSERT_TRUE(job.WaitForRound(5));
  job.server(1).Signal(SIGKILL);
  job.server(1).Wait();
  job.StartServer(1, ArgumentsFor({"ssgd", "ternary"}));
  job.ExpectAllEnd(0);
  EXPECT_EQ(job.Output("server.0.json")["replicas_agree"], true);
}

}  // namespace
}  // namespace tern::e2e
