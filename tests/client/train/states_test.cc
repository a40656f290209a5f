// Tests of the State that a worker gives another one, which joins the job or begins it with this
// worker's weights. The worker is asked while it waits for answers, in the middle of a step. The
// State must be that after a round, because the other worker makes the whole step.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/client/train/reference.h"

namespace tern::client {
namespace {

std::vector<Trace> RunAndAskForStates(const std::string& algorithm,
                                      std::vector<std::string> settings) {
  settings.emplace_back("faults.on_worker_loss=wait");  // Without it nobody joins.
  const auto job = MakeJob(algorithm, settings);
  return RunCluster(*job, {.steps = kSteps, .asks_for_states = true});
}

TEST(States, HaveTheWeightsAfterARound) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"ssgd", {}},
      {"odsgd", {"train.odsgd.warmup_steps=3"}},
      {"psgd", {"train.psgd.p=4"}},
      {"psgd", {"train.psgd.p=1"}},
      {"pqasgd", {"train.pqasgd.p=4"}},
      {"pqasgd", {"train.pqasgd.p=4", "train.pqasgd.fragments=2"}},
  };
  for (const auto& [algorithm, settings] : cases) {
    SCOPED_TRACE(testing::Message() << algorithm << " " << testing::PrintToString(settings));
    const auto traces = RunAndAskForStates(algorithm, settings);
    const Vector first = InitialWeights(*MakeJob(algorithm, settings));
    const std::vector<float> initial(first.begin(), first.end());
    for (const Trace& trace : traces) {
      EXPECT_GE(trace.given_weights.size(), kSteps / 8);
      for (const auto& [applied, weights] : trace.given_weights) {
        const std::vector<float>& expected =
            applied == 0 ? initial : trace.weights_after_round.at(applied);
        EXPECT_EQ(weights, expected) << "round " << applied;
      }
    }
  }
}

// rsgd's workers have weights of their own, which change in each step before the worker waits.
// Step s is in round 2 s, and the exchange before an evaluation after it in round 2 s + 1.
TEST(States, OfRsgdHaveThePointBeforeTheStepInProgress) {
  for (const Trace& trace : RunAndAskForStates("rsgd", {"train.rsgd.p=4"})) {
    EXPECT_GE(trace.given_weights.size(), kSteps);
    for (const auto& [applied, weights] : trace.given_weights) {
      const uint64_t steps_done = applied / 2;
      if (steps_done == kSteps) continue;  // No step follows.
      EXPECT_EQ(weights, trace.points[steps_done]) << "round " << applied;
    }
  }
}

}  // namespace
}  // namespace tern::client
