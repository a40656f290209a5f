// The tasks of a program whose module is trained, and steps that no longer count.
#include "client/guest/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "client/guest/handoff.h"
#include "common/base/counters.h"

namespace tern::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Type = GuestTask::Type;

TEST(Tasks, AProgramThatWantsATaskGetsIt) {
  Events wake;
  Tasks tasks(wake);
  EXPECT_FALSE(tasks.IsWanted());
  EXPECT_EQ(tasks.Next(milliseconds(0))->type, Type::kNone);
  EXPECT_TRUE(tasks.IsWanted());
  EXPECT_TRUE(std::holds_alternative<SamplesReady>(*wake.TryPop()));
  EXPECT_EQ(tasks.Next(milliseconds(0))->type, Type::kNone);
  EXPECT_FALSE(wake.TryPop().has_value()) << "it still waits";
  tasks.Give({.type = Type::kStep, .step = 7});
  EXPECT_EQ(tasks.Next(seconds(60))->step, 7u);
  EXPECT_FALSE(tasks.IsWanted());
  EXPECT_EQ(tasks.taken().type, Type::kStep);
  tasks.FinishTaken();
  EXPECT_EQ(tasks.Next(milliseconds(0))->type, Type::kNone);
  EXPECT_EQ(tasks.taken().type, Type::kNone) << "what was done is not asked about again";
}

TEST(Tasks, AnEvaluationWaitsForItsScore) {
  Events wake;
  Tasks tasks(wake);
  std::thread program([&] {
    const Result<GuestTask> task = tasks.Next(seconds(60));
    EXPECT_EQ(task->type, Type::kEvaluate);
    tasks.SetScore({.loss = 2.0 * task->part, .samples = task->num_parts});
  });
  const std::optional<Score> score =
      tasks.Evaluate({.type = Type::kEvaluate, .part = 1, .num_parts = 3});
  program.join();
  ASSERT_TRUE(score.has_value());
  EXPECT_EQ(score->loss, 2);
  EXPECT_EQ(score->samples, 3u);
}

TEST(Tasks, AStateIsSavedAndLoaded) {
  Events wake;
  Tasks tasks(wake);
  tasks.SetState(Bytes::Own(std::string("nobody has asked")));
  std::thread program([&] {
    EXPECT_EQ(tasks.Next(seconds(60))->type, Type::kSave);
    tasks.SetScore({.loss = 1, .samples = 1});  // Nobody has asked for that, either.
    tasks.SetState(Bytes::Own(std::string("state")));
    const Result<GuestTask> load = tasks.Next(seconds(60));
    EXPECT_EQ(load->type, Type::kLoad);
    EXPECT_EQ(load->state.size(), 3u);
    EXPECT_EQ(tasks.Next(milliseconds(0))->type, Type::kNone) << "which says that it was loaded";
  });
  EXPECT_EQ(tasks.Save()->size(), 5u);
  EXPECT_TRUE(tasks.Load(Bytes::Own(std::string("old"))));
  program.join();
}

TEST(Tasks, TheEndEndsAllWaiting) {
  Events wake;
  Tasks tasks(wake);
  std::thread training(
      [&] { EXPECT_FALSE(tasks.Evaluate({.type = Type::kEvaluate}).has_value()); });
  tasks.End(Ok());
  training.join();
  tasks.End(Status(Code::kInternal, "a second end"));
  EXPECT_EQ(tasks.Next(seconds(60))->type, Type::kOver);
  Tasks failed(wake);
  failed.End(Status(Code::kPeerLost, "worker 1 was lost"));
  EXPECT_TRUE(failed.IsWanted()) << "the training thread must not wait for it";
  EXPECT_EQ(failed.Next(seconds(60)).status().message(), "worker 1 was lost");
}

TEST(Tasks, ATaskIsTakenBackUnlessTheProgramHasIt) {
  Events wake;
  Tasks tasks(wake);
  EXPECT_FALSE(tasks.TakeBack());
  tasks.Give({.type = Type::kStep, .step = 1});
  EXPECT_TRUE(tasks.TakeBack());
  EXPECT_EQ(tasks.Next(milliseconds(0))->type, Type::kNone);
  tasks.Give({.type = Type::kStep, .step = 2});
  EXPECT_EQ(tasks.Next(seconds(60))->step, 2u);
  EXPECT_FALSE(tasks.TakeBack());
}

// A job of two tensors of one element.
class DroppedStep : public testing::Test {
 protected:
  DroppedStep() {
    for (const char* name : {"a", "b"}) {
      models::Parameter parameter;
      parameter.name = name;
      parameter.offset = setup_.table.total++;
      parameter.count = 1;
      setup_.table.parameters.push_back(parameter);
    }
    handoff_.emplace(setup_, wake_, guest_events_);
    handoff_->SetArena(arena_);
  }
  void Push(uint32_t tensor) {
    EXPECT_TRUE(*handoff_->Push(tensor, &arena_[tensor], nullptr, seconds(60)));
  }

  setup::Setup setup_;
  Registry registry_;
  Progress progress_{registry_};
  Events wake_;
  GuestEvents guest_events_;
  float arena_[2] = {};
  std::optional<Handoff> handoff_;
};

TEST_F(DroppedStep, WaitsForAProgramThatComputesIt) {
  handoff_->OpenStep(1);
  Push(0);
  EXPECT_EQ(handoff_->NextPushed(), 0u);
  EXPECT_THAT(handoff_->CheckAllPushed(1).message(),
              testing::HasSubstr("step 1 is not complete: b was not pushed"));
  std::thread program([&] { Push(1); });
  handoff_->DropStep(/*is_computing=*/true, progress_);
  program.join();
  EXPECT_TRUE(handoff_->CheckAllPushed(1).ok());
  handoff_->OpenStep(1);
  Push(1);
  EXPECT_EQ(handoff_->NextPushed(), 1u) << "of the new step";
  EXPECT_TRUE(handoff_->CheckAllPushed(7).ok()) << "another step is open than the program's";
}

TEST_F(DroppedStep, EndsForAClientWithMeansOfZeros) {
  handoff_->OpenStep(1);
  float means[2] = {5, 5};
  EXPECT_TRUE(*handoff_->Push(0, &arena_[0], &means[0], seconds(60)));
  EXPECT_TRUE(*handoff_->Push(1, &arena_[1], &means[1], seconds(60)));
  handoff_->WriteMean(0, 0, std::vector<float>{7});
  handoff_->CompleteMean(0);
  handoff_->Finish();
  handoff_->DropStep(true, progress_);
  EXPECT_THAT(means, testing::ElementsAre(7, 0));
  EXPECT_EQ(guest_events_.TryPop()->tensor, 0u);
  EXPECT_EQ(guest_events_.TryPop()->tensor, 1u);
  EXPECT_FALSE(guest_events_.TryPop().has_value());
  EXPECT_TRUE(handoff_->OpenStep(1)) << "the program computes steps again";
  Push(0);
}

TEST_F(DroppedStep, IsClosedIfNobodyComputesIt) {
  handoff_->DropStep(true, progress_);  // No step was opened yet.
  handoff_->OpenStep(1);
  handoff_->DropStep(false, progress_);
  EXPECT_FALSE(*handoff_->Push(0, &arena_[0], nullptr, milliseconds(0)));
  handoff_->OpenStep(1);
  Push(0);
  Push(1);
  EXPECT_EQ(handoff_->NextPushed(), 0u);
  EXPECT_EQ(handoff_->NextPushed(), 1u);
  handoff_->DropStep(true, progress_);  // Nothing of it is missing.
}

}  // namespace
}  // namespace tern::client
