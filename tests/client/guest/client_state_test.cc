// What a program saves of Tern, and gives back in a later start.
#include "client/guest/client_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/client/train/train_job.h"

namespace tern::client {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// What a program saves after `step` of `run`.
Bytes SavedBytes(const setup::Setup& setup, uint64_t run, uint64_t step) {
  Events wake;
  auto state = std::move(*ClientState::Make(setup, /*rank=*/0, "", 0, wake));
  EXPECT_TRUE(state->Begin(run, 0, false).ok());
  EXPECT_TRUE(state->Write(step, step, {}, {}, 0).ok());
  auto saved = state->Save(milliseconds(0));
  EXPECT_TRUE(saved.ok() && saved->has_value());
  return **std::move(saved);
}

// The number of a run is random, and has all 64 bits.
TEST(ClientState, GoesOnFromWhatWasSavedInAnyRun) {
  const auto setup = SmallJob();
  Events wake;
  for (const uint64_t run : {uint64_t{1}, (uint64_t{1} << 62) + 5, (uint64_t{1} << 63) + 7,
                             std::numeric_limits<uint64_t>::max()}) {
    const Bytes saved = SavedBytes(*setup, run, 12);
    auto state = ClientState::Make(*setup, 0, saved.view(), 0, wake);
    ASSERT_TRUE(state.ok()) << state.status().message();
    ASSERT_EQ((*state)->Offers().size(), 1u);
    EXPECT_EQ((*state)->Offers()[0].run(), run);
    EXPECT_EQ((*state)->Offers()[0].step(), 12u);
  }
}

TEST(ClientState, OffersTheDigestOfTheWeightsBesideIt) {
  const auto setup = SmallJob();
  Events wake;
  const Bytes saved = SavedBytes(*setup, 1, 12);
  const auto with = ClientState::Make(*setup, 0, saved.view(), 77, wake);
  ASSERT_TRUE(with.ok()) << with.status().message();
  EXPECT_EQ((*with)->Offers()[0].weights_hash(), 77u);
  const auto without = ClientState::Make(*setup, 0, saved.view(), 0, wake);
  EXPECT_FALSE((*without)->Offers()[0].has_weights_hash());
}

TEST(ClientState, RefusesAStepThatNoJobReaches) {
  const auto setup = SmallJob();
  Events wake;
  const Bytes saved = SavedBytes(*setup, 1, setup::kUnknownSteps);
  const auto state = ClientState::Make(*setup, 0, saved.view(), 0, wake);
  ASSERT_FALSE(state.ok());
  EXPECT_THAT(state.status().message(), HasSubstr("as tern.step, expected a number"));
}

TEST(ClientState, RefusesThatOfAnotherRankOrJob) {
  const auto setup = SmallJob();
  Events wake;
  const Bytes saved = SavedBytes(*setup, 1, 12);
  const auto of_other_rank = ClientState::Make(*setup, 1, saved.view(), 0, wake);
  EXPECT_EQ(of_other_rank.status().code(), Code::kMismatch);
  EXPECT_THAT(of_other_rank.status().message(), HasSubstr("saw 0 as rank; this worker has 1"));
  EXPECT_EQ(ClientState::Make(*setup, 0, "no state", 0, wake).status().code(), Code::kBadData);
}

}  // namespace
}  // namespace tern::client
