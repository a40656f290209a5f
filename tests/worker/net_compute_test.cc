// Tests of the nets for a job's batch sizes.
#include "worker/net_compute.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/client/train/train_job.h"
#include "tests/limited_memory.h"

namespace tern::worker {
namespace {

// Its activations and their gradients take about 3 MB a sample.
constexpr char kWideNet[] = R"(
      - {name: wide, conv: {outputs: 48, kernel: 3, padding: same}}
      - {name: rectified, relu: {}}
      - {name: wider, conv: {outputs: 48, kernel: 3, padding: same}}
      - {name: pool, avg_pool: {global: true}}
      - {name: scores, dense: {outputs: 3}}
)";

struct Worker {
  Worker()
      : setup(
            client::SmallJob({"model.net.input.height=64", "model.net.input.width=64"}, kWideNet)),
        parameters(setup->table.total, 0.01f),
        gradients(setup->table.total),
        compute(
            std::move(*MakeNetCompute(*setup, 0, {parameters.data(), gradients.data(), nullptr}))) {
  }

  // The loss and the gradients of a step.
  double Step(uint32_t samples) {
    data::Batch batch;
    batch.images.resize(samples * size_t{64} * 64);
    for (size_t i = 0; i < batch.images.size(); ++i)
      batch.images[i] = static_cast<float>(i % 7) - 3;
    for (uint32_t n = 0; n < samples; ++n) batch.labels.push_back(n % 3);
    const double loss = compute->Forward(batch, nullptr);
    compute->Backward([](uint32_t) {});
    return loss;
  }

  std::unique_ptr<setup::Setup> setup;
  std::vector<float> parameters, gradients;
  std::unique_ptr<BatchCompute> compute;
};

TEST(NetCompute, GivesTheSameResultsWhenItReturnsToASize) {
  Worker worker;
  const double loss = worker.Step(3);
  const std::vector<float> gradients = worker.gradients;
  worker.Step(5);
  EXPECT_NE(worker.gradients, gradients);
  EXPECT_EQ(worker.Step(3), loss);
  EXPECT_EQ(worker.gradients, gradients);
}

// A suite that runs first, before there are threads that a fork would lose. The nets of all sizes
// would take six times the memory of the largest.
TEST(NetComputeDeathTest, HoldsTheNetOfOneSizeOfAGrowingBatch) {
  TERN_EXPECT_WITHIN_MEMORY(180 << 20, [] {
    Worker worker;
    for (uint32_t samples = 9; samples <= 16; ++samples) worker.Step(samples);
    return worker.compute->status().ok();
  }());
}

}  // namespace
}  // namespace tern::worker
