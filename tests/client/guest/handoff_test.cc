// The meeting of a program's threads and the training thread.
#include "client/guest/handoff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tern::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// A job of two tensors, of 2 x 3 and of 4 elements.
class HandoffTest : public testing::Test {
 protected:
  HandoffTest() {
    for (const auto& [name, count] : {std::pair("w", 6u), std::pair("b", 4u)}) {
      models::Parameter parameter;
      parameter.name = name;
      parameter.offset = setup_.table.total;
      parameter.count = count;
      setup_.table.total += count;
      setup_.table.parameters.push_back(parameter);
    }
    arena_.resize(setup_.table.total, -1);
    handoff_.emplace(setup_, wake_, guest_events_);
    handoff_->SetArena(arena_.data());
  }

  Result<bool> Push(uint32_t tensor, const std::vector<float>& gradient, float* mean = nullptr) {
    return handoff_->Push(tensor, gradient.data(), mean, milliseconds(0));
  }
  std::string ErrorOf(const Result<bool>& pushed) {
    return pushed.ok() ? "" : pushed.status().message();
  }

  setup::Setup setup_;
  Events wake_;
  GuestEvents guest_events_;
  std::vector<float> arena_;
  std::optional<Handoff> handoff_;
};

TEST_F(HandoffTest, CopiesGradientsAndWritesMeans) {
  EXPECT_FALSE(*Push(1, {1, 2, 3, 4}));  // The step is not open yet.
  handoff_->OpenStep(1);
  EXPECT_FALSE(handoff_->HasStep());
  std::vector<float> mean(4);
  EXPECT_TRUE(*Push(1, {1, 2, 3, 4}, mean.data()));
  EXPECT_TRUE(handoff_->HasStep());
  EXPECT_TRUE(std::holds_alternative<SamplesReady>(*wake_.TryPop()));
  EXPECT_TRUE(*handoff_->Push(0, nullptr, nullptr, milliseconds(0)));
  EXPECT_EQ(handoff_->NextPushed(), 1u);
  EXPECT_EQ(handoff_->NextPushed(), 0u);
  EXPECT_THAT(arena_, testing::ElementsAre(0, 0, 0, 0, 0, 0, 1, 2, 3, 4));
  EXPECT_FALSE(*Push(1, {1, 2, 3, 4}));  // All tensors were pushed: this is the next step's.
  handoff_->WriteMean(1, 2, std::vector<float>{7, 8});
  handoff_->CompleteMean(1);
  handoff_->CompleteMean(0);  // Nobody wants it.
  EXPECT_THAT(mean, testing::ElementsAre(0, 0, 7, 8));
  const GuestEvent event = *guest_events_.TryPop();
  EXPECT_EQ(event.type, GuestEvent::Type::kTensor);
  EXPECT_EQ(event.tensor, 1u);
  EXPECT_EQ(event.step, 1u);
  EXPECT_FALSE(guest_events_.TryPop().has_value());
  handoff_->OpenStep(2);
  EXPECT_TRUE(*Push(1, {1, 2, 3, 4}));
}

TEST_F(HandoffTest, RefusesWhatIsNoStep) {
  handoff_->OpenStep(7);
  EXPECT_THAT(ErrorOf(Push(2, {})), HasSubstr("pushed tensor 2; the table has the tensors 0 to 1"));
  EXPECT_TRUE(*Push(1, {1, 2, 3, 4}));
  EXPECT_THAT(ErrorOf(Push(1, {1, 2, 3, 4})),
              HasSubstr("pushed b twice in step 7, in which w was not pushed"));
  handoff_->Finish();
  EXPECT_THAT(ErrorOf(Push(0, {})), HasSubstr("after tern_finish"));
}

TEST_F(HandoffTest, FinishCompletesAStepWithZeros) {
  handoff_->OpenStep(1);
  EXPECT_TRUE(*Push(1, {1, 2, 3, 4}));
  handoff_->Report(0.5, 32);
  handoff_->Finish();
  EXPECT_EQ(handoff_->report().num_samples, 32u);
  EXPECT_EQ(handoff_->report().loss, 0.5);
  EXPECT_EQ(handoff_->NextPushed(), 1u);
  EXPECT_EQ(handoff_->NextPushed(), 0u);
  EXPECT_THAT(arena_, testing::ElementsAre(0, 0, 0, 0, 0, 0, 1, 2, 3, 4));
  handoff_->OpenStep(2);
  EXPECT_TRUE(handoff_->HasStep());
  EXPECT_EQ(handoff_->report().num_samples, 0u);
}

TEST_F(HandoffTest, TheEndWakesAll) {
  handoff_->OpenStep(1);
  EXPECT_TRUE(*Push(1, {1, 2, 3, 4}));
  EXPECT_EQ(handoff_->NextPushed(), 1u);
  Status taken;
  std::thread waiting([&] {
    taken = handoff_->TakePushed([](uint32_t) {},
                                 [&](const std::function<bool()>& is_done) {
                                   while (!is_done()) wake_.Pop();
                                   return Ok();
                                 });
  });
  handoff_->End(Status(Code::kPeerLost, "worker 1 was lost"));
  handoff_->End(Ok());
  waiting.join();
  EXPECT_EQ(taken.message(), "worker 1 was lost");
  EXPECT_EQ(handoff_->end_status().message(), "worker 1 was lost");
  EXPECT_THAT(ErrorOf(Push(0, {})), HasSubstr("worker 1 was lost"));
}

TEST_F(HandoffTest, APushWaitsForItsStep) {
  std::thread pushing([&] {
    const std::vector<float> gradient(6, 1);
    EXPECT_TRUE(*handoff_->Push(0, gradient.data(), nullptr, seconds(60)));
  });
  handoff_->OpenStep(1);
  EXPECT_TRUE(std::holds_alternative<SamplesReady>(*wake_.Pop()));
  EXPECT_EQ(handoff_->NextPushed(), 0u);
  pushing.join();
}

// The state between two steps is asked for only when it is that: before the first step, or once the
// program has begun to push the next one.
TEST_F(HandoffTest, AsksForTheStateBetweenTwoSteps) {
  const auto is_asked = [&] {
    const std::optional<GuestEvent> event = guest_events_.TryPop();
    return event.has_value() && event->type == GuestEvent::Type::kGiveState;
  };
  handoff_->OpenStep(5);
  handoff_->AskForState();
  EXPECT_TRUE(is_asked());  // Nothing has been trained in this process.
  handoff_->GiveState(Bytes::Own(std::string("state")));
  const Event given = *wake_.TryPop();
  EXPECT_EQ(std::get<StateGiven>(given).applied, 4u);
  EXPECT_EQ(std::get<StateGiven>(given).state.size(), 5u);
  EXPECT_TRUE(*Push(0, std::vector<float>(6)));
  EXPECT_TRUE(*Push(1, std::vector<float>(4)));
  handoff_->OpenStep(6);
  handoff_->AskForState();
  EXPECT_FALSE(is_asked());  // The program may still be using the means of step 5.
  EXPECT_TRUE(*Push(0, std::vector<float>(6)));
  EXPECT_TRUE(is_asked());
  EXPECT_FALSE(handoff_->HasStep());  // A round that closes meanwhile would change the state.
  handoff_->GiveState(Bytes::Own(std::string("state")));
  EXPECT_TRUE(handoff_->HasStep());
  handoff_->AskForState();
  EXPECT_TRUE(is_asked());
  EXPECT_TRUE(*Push(1, std::vector<float>(4)));
  handoff_->OpenStep(7);  // The round has closed before the answer.
  while (wake_.TryPop().has_value()) {
  }
  handoff_->GiveState(Bytes::Own(std::string("state")));
  EXPECT_EQ(std::get<StateGiven>(*wake_.TryPop()).applied, 5u) << "that for which it was asked";
}

TEST_F(HandoffTest, AProgramThatHasFinishedHasNoState) {
  handoff_->OpenStep(1);
  handoff_->Finish();
  handoff_->AskForState();
  EXPECT_THAT(handoff_->end_status().message(), HasSubstr("this program has finished before"));
}

TEST_F(HandoffTest, AnotherStateIsForAProgramThatBegins) {
  handoff_->OpenStep(1);
  handoff_->LoadState(Bytes::Own(std::string("state")));
  EXPECT_EQ(guest_events_.TryPop()->type, GuestEvent::Type::kState);
  EXPECT_TRUE(*Push(0, std::vector<float>(6)));
  handoff_->LoadState(Bytes::Own(std::string("state")));
  EXPECT_FALSE(guest_events_.TryPop().has_value());
  EXPECT_THAT(handoff_->end_status().message(), HasSubstr("start it again"));
}

}  // namespace
}  // namespace tern::client
