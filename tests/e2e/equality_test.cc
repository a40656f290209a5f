// Tests of what must not change results: how many workers share a batch (up to rounding), and in a
// ternary job the order, the shards and the chunks of pushes (bit for bit).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/tensors/safetensors.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

// The final weights of a job whose batch of 32 samples is divided among this number of workers.
std::vector<double> WeightsOf(uint32_t workers) {
  JobOptions options;
  options.workers = workers;
  options.steps = 50;
  options.batch_total = 32;
  options.yaml = "exchange: {codec: fp32}\n";
  TestJob job(options);
  job.StartAll();
  job.ExpectAllEnd(0);
  Result<tensors::TensorFile> file =
      tensors::ReadSafetensors(job.output_dir() + "/weights.safetensors");
  std::vector<double> values;
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return values;
  for (const tensors::Tensor& tensor : file->tensors)
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
  EXPECT_EQ(values.size(), 431080u);
  return values;
}

TEST(Fp32, NWorkersFollowOneWithTheWholeBatch) {
  const std::vector<double> weights_of_one_worker = WeightsOf(1);
  double squared_norm = 0;
  for (const double weight : weights_of_one_worker) squared_norm += weight * weight;
  ASSERT_GT(squared_norm, 0);
  for (const uint32_t workers : {2, 4}) {
    const std::vector<double> weights_of_more_workers = WeightsOf(workers);
    ASSERT_EQ(weights_of_more_workers.size(), weights_of_one_worker.size());
    double squared_difference = 0;
    for (size_t i = 0; i < weights_of_one_worker.size(); ++i)
      squared_difference += (weights_of_more_workers[i] - weights_of_one_worker[i]) *
                            (weights_of_more_workers[i] - weights_of_one_worker[i]);
    const double relative_difference = std::sqrt(squared_difference / squared_norm);
    RecordProperty(workers == 2 ? "difference_of_2" : "difference_of_4",
                   std::to_string(1e6 * relative_difference) + "e-6");
    EXPECT_LE(relative_difference, 1e-4) << workers << " workers";
    EXPECT_GT(relative_difference, 0) << "sums in another order cannot be the same to the bit";
  }
}

JobOptions TernaryOptions(uint32_t servers = 1) {
  JobOptions options;
  options.servers = servers;
  options.workers = 3;
  options.steps = 30;
  options.batch_total = 24;
  return options;
}

// The final weights of a job with TernaryOptions on one server.
const std::string& TernaryWeights() {
  static const std::string weights = [] {
    TestJob job(TernaryOptions());
    job.StartAll();
    job.ExpectAllEnd(0);
    return job.Weights();
  }();
  return weights;
}

// With `on_worker_loss: fail` no worker can join later. So the answer to a bucket (a group of
// tensors) is applied when it arrives, without waiting for the other buckets' answers.
TEST(Ternary, AppliedBucketByBucketOrAtOnceEndsWithTheSameBytes) {
  for (const std::string on_loss : {"fail", "wait"}) {
    TestJob job(TernaryOptions(2));
    job.StartAll({"--set", "exchange.bucket_kib=64", "--set", "faults.on_worker_loss=" + on_loss});
    job.ExpectAllEnd(0);
    EXPECT_TRUE(job.Weights() == TernaryWeights()) << on_loss;
  }
}

TEST(Ternary, TwoRunsEndWithTheSameBytes) {
  TestJob job(TernaryOptions());
  job.StartAll();
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == TernaryWeights());
}

TEST(Ternary, AnotherSeedEndsWithOtherBytes) {
  TestJob job(TernaryOptions());
  job.StartAll({"--set", "seed=2"});
  job.ExpectAllEnd(0);
  EXPECT_FALSE(job.Weights() == TernaryWeights());
}

TEST(Ternary, TwoServerShardsEndWithTheSameBytes) {
  JobOptions options = TernaryOptions(2);
  options.yaml = "exchange: {chunk_kib: 256}\n";
  TestJob job(options);
  job.StartAll();
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == TernaryWeights());
}

TEST(Ternary, ChunksSocketsAndOrderOfArrivalDoNotChangeTheBytes) {
  JobOptions options = TernaryOptions(2);
  options.yaml = "exchange: {bucket_kib: 16, chunk_kib: 16, credit_kib: 64}\n";
  TestJob job(options);
  const std::vector<std::string> socket_arguments = {"--set", "servers.0.data_sockets=3", "--set",
                                                     "servers.1.data_sockets=2"};
  for (const uint32_t rank : {2, 0, 1}) job.StartWorker(rank, socket_arguments);
  for (const uint32_t shard : {1, 0}) job.StartServer(shard, socket_arguments);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == TernaryWeights());
}

}  // namespace
}  // namespace tern::e2e
