// Tests of when Lookahead is due, and of its decay.
#include "common/update/lookahead.h"

#include <gtest/gtest.h>

namespace tern::update {
namespace {

TEST(Lookahead, IsDueEveryKSteps) {
  pb::Lookahead settings;
  settings.set_every_steps(3);
  settings.set_decay(0.75);
  const Lookahead lookahead(&settings, 100);
  for (uint64_t step = 1; step <= 100; ++step) {
    const std::optional<float> alpha = lookahead.OneMinusDecay(step);
    ASSERT_EQ(alpha.has_value(), step % 3 == 0) << step;
    if (alpha.has_value()) {
      EXPECT_EQ(*alpha, 0.25f) << step;
    }
  }
}

TEST(Lookahead, ItsDecayRisesWithAPowerOfTheStep) {
  pb::Lookahead settings;
  settings.set_decay(0.8);
  settings.set_decay_power(3);
  const Lookahead lookahead(&settings, 10);
  EXPECT_EQ(lookahead.OneMinusDecay(5), 0.9f) << "0.8 (1 / 2)^3 = 0.1";
  EXPECT_EQ(lookahead.OneMinusDecay(10), 0.2f);
}

TEST(Lookahead, IsNeverDueWithoutASection) {
  const Lookahead lookahead(nullptr, 10);
  for (uint64_t step = 1; step <= 10; ++step)
    EXPECT_EQ(lookahead.OneMinusDecay(step), std::nullopt);
}

}  // namespace
}  // namespace tern::update
