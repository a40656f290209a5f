// Tests that a peer (connection) that is not a member changes nothing, whatever it sends and
// whichever rank it claims, and that errors which peers report are checked. An incarnation
// identifies one process of a rank.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Peer kStranger = 666;

// The state of the job as far as the Coordinator shows it.
std::string DescribeState(const Shard0& shard0) {
  const Coordinator& coordinator = shard0.coordinator();
  std::string text = std::to_string(coordinator.running()) + std::to_string(coordinator.ending()) +
                     " steps " + std::to_string(coordinator.job().roster.steps) + " floor " +
                     std::to_string(coordinator.lane().floor());
  for (const Coordinator::Worker& worker : coordinator.workers()) {
    for (const uint64_t field :
         {static_cast<uint64_t>(worker.presence), uint64_t{worker.suspect},
          uint64_t{worker.joining}, worker.incarnation, worker.epoch, worker.peer, worker.progress,
          worker.applied, worker.steps_done, static_cast<uint64_t>(worker.heard_at.count())}) {
      text += " " + std::to_string(field);
    }
    text += worker.hello.ShortDebugString() + worker.counters.ShortDebugString() +
            worker.figures.ShortDebugString();
  }
  return text;
}

// Messages of every type. Where a type has the fields `rank` and `incarnation`, they are set to
// these values, and other fields to values that could end or stop a job.
std::vector<Message> MessagesClaiming(uint32_t rank, uint64_t incarnation) {
  std::vector<Message> messages;
  const auto* envelope = pb::Envelope::descriptor();
  for (int i = 0; i < envelope->field_count(); ++i) {
    Message message;
    auto* body = message.head.GetReflection()->MutableMessage(&message.head, envelope->field(i));
    const auto* type = body->GetDescriptor();
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, uint64_t>>{{"rank", rank},
                                                       {"incarnation", incarnation},
                                                       {"applied", 50},
                                                       {"round", 1},
                                                       {"steps", 100},
                                                       {"stop", 143},
                                                       {"epoch", 9},
                                                       {"progress", 7},
                                                       {"floor", 9}}) {
      const auto* field = type->FindFieldByName(name);
      if (field == nullptr || field->is_repeated()) continue;
      if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT32)
        body->GetReflection()->SetUInt32(body, field, static_cast<uint32_t>(value));
      if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT64)
        body->GetReflection()->SetUInt64(body, field, value);
    }
    messages.push_back(message);
    for (const uint32_t code : {0, 65, 70, 75, 143, 256}) {
      const auto* field = type->FindFieldByName("code");
      if (field == nullptr) continue;
      body->GetReflection()->SetUInt32(body, field, code);
      messages.push_back(message);
    }
  }
  return messages;
}

class Strangers : public testing::TestWithParam<OnLoss> {
 protected:
  Strangers() : shard0_(GetParam(), 2) {
    pb::Hello hello = TestHello(1, 70);
    hello.set_role(pb::Hello::shard);
    shard0_.Deliver(200, HelloMessage(hello));
  }
  // A connection that belongs to no member sends messages of every type in the name of each rank,
  // with incarnation 0 and with the rank's own, and in the name of two ranks that do not exist.
  void ExpectChangesNothing() {
    const std::string state_before = DescribeState(shard0_);
    for (const uint32_t rank : {0u, 1u, 2u, 4000000000u}) {
      const uint64_t incarnation = rank < 2 ? shard0_.workers()[rank].incarnation : 5;
      for (const uint64_t claimed_incarnation : {uint64_t{0}, incarnation}) {
        for (const Message& message : MessagesClaiming(rank, claimed_incarnation)) {
          const ControlActions out = shard0_.Deliver(kStranger, message);
          ASSERT_EQ(DescribeState(shard0_), state_before) << message.head.ShortDebugString();
          EXPECT_EQ(Count(out, ControlAction::Type::kEnded), 0) << message.head.ShortDebugString();
          EXPECT_EQ(Count(out, ControlAction::Type::kStop), 0) << message.head.ShortDebugString();
          for (const Send& send : SendsOf(out))
            EXPECT_EQ(send.to, kStranger) << message.head.ShortDebugString();
        }
      }
    }
  }

  Shard0 shard0_;
};

TEST_P(Strangers, ChangeNothingBeforeTheJobBegins) {
  ExpectChangesNothing();
  shard0_.Deliver(100, HelloMessage(TestHello(0, 10)));
  ExpectChangesNothing();
  EXPECT_FALSE(shard0_.coordinator().running());
  shard0_.Deliver(101, HelloMessage(TestHello(1, 11)));
  EXPECT_TRUE(shard0_.coordinator().running());
}

TEST_P(Strangers, ChangeNothingWhileItRuns) {
  shard0_.GatherWorkers();
  ExpectChangesNothing();
  shard0_.Deliver(100, HeartbeatMessage(0, 10, 5));
  ExpectChangesNothing();
  EXPECT_TRUE(shard0_.coordinator().running());
}

TEST_P(Strangers, ChangeNothingWhileAWorkerIsDone) {
  shard0_.GatherWorkers();
  shard0_.Deliver(100, ByeMessage(0, 10));
  ExpectChangesNothing();
  EXPECT_EQ(shard0_.workers()[0].presence, Coordinator::Worker::Presence::kDone);
}

INSTANTIATE_TEST_SUITE_P(Each, Strangers,
                         testing::Values(OnLoss::kFail, OnLoss::kWait, OnLoss::kShrink),
                         [](const auto& info) { return NameOf(info.param); });

TEST(PlaceOfAShard, IsItsOwnWhileItIsHeard) {
  Shard0 shard0(OnLoss::kWait, 2);
  const auto say_hello = [&](Peer from, uint64_t incarnation) {
    pb::Hello hello = TestHello(1, incarnation);
    hello.set_role(pb::Hello::shard);
    return shard0.Deliver(from, HelloMessage(hello));
  };
  Message pulse;
  pulse.head.mutable_pulse()->set_incarnation(70);
  say_hello(200, 70);
  shard0.GatherWorkers();
  EXPECT_EQ(Shard0::RefuseTo(201, say_hello(201, 71)).then(), pb::Refuse::retry);
  for (int i = 0; i < 20; ++i) {
    shard0.PassTime(milliseconds(100), {0, 1});
    shard0.Deliver(200, pulse);
  }
  const ControlActions actions_on_second_process = say_hello(201, 71);
  EXPECT_EQ(Shard0::RefuseTo(201, actions_on_second_process).then(), pb::Refuse::leave);
  EXPECT_EQ(Shard0::RefuseTo(201, actions_on_second_process).code(), 77u);
  EXPECT_TRUE(MessagesTo(200, SendsOf(actions_on_second_process)).empty());
  // After 600 ms (more than two heartbeats) of silence, shard 1's process counts as dead, and a new
  // one gets its place.
  shard0.PassTime(milliseconds(600), {0, 1});
  EXPECT_TRUE(
      FirstMessageTo(202, pb::Envelope::kWelcome, SendsOf(say_hello(202, 72))).head.has_welcome());
}

TEST(Gathering, AByeOfOneThatWasNeverPartOfTheJobIsNotItsEnd) {
  Shard0 shard0(OnLoss::kFail);
  shard0.Deliver(100, HelloMessage(TestHello(0, 10)));
  EXPECT_EQ(Shard0::RefuseTo(100, shard0.Deliver(100, ByeMessage(0, 10))).then(),
            pb::Refuse::retry);
  EXPECT_EQ(shard0.workers()[0].presence, Coordinator::Worker::Presence::kPresent);
}

TEST(Gathering, AByeOfOneThatWasDoneBeforeShard0CameBackCounts) {
  Shard0 shard0(OnLoss::kFail);
  for (const uint32_t rank : {0, 1}) {
    pb::Hello hello = HelloWithState(rank, 10 + rank, 100, 3);
    hello.set_done(true);
    shard0.Deliver(100 + rank, HelloMessage(hello));
  }
  shard0.Deliver(100, ByeMessage(0, 10));
  const ControlActions out = shard0.Deliver(101, ByeMessage(1, 11));
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end().code(), 0u);
}

// A previous process of shard 0 had been asked to stop the job, and the workers stopped early. The
// current process does not know of the request.
TEST(EndInOrder, IsNotReportedForAJobThatEndedBeforeItsLastStep) {
  Shard0 shard0(OnLoss::kFail);
  shard0.GatherWorkers();
  for (const uint32_t rank : {0, 1}) {
    Message bye = ByeMessage(rank, 10 + rank);
    bye.head.mutable_bye()->set_steps(40);
    const ControlActions out = shard0.Deliver(100 + rank, bye);
    if (rank == 0) continue;
    const pb::End end = FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end();
    EXPECT_EQ(end.code(), 143u);
    EXPECT_THAT(end.sentence(), HasSubstr("after step 40 of 100"));
  }
}

// The workers stopped early because train.stop_when says so.
TEST(EndInOrder, IsReportedForAJobWhoseEvaluationsEndedIt) {
  Shard0 shard0(OnLoss::kFail);
  shard0.GatherWorkers();
  for (const uint32_t rank : {0, 1}) {
    Message bye = ByeMessage(rank, 10 + rank);
    bye.head.mutable_bye()->set_steps(40);
    bye.head.mutable_bye()->mutable_figures()->mutable_evaluations()->set_last_step(40);
    const ControlActions out = shard0.Deliver(100 + rank, bye);
    if (rank == 0) continue;
    EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kEnd, SendsOf(out)).head.end().code(), 0u);
  }
}

TEST(Hellos, WithImpossibleFieldsAreRefused) {
  Shard0 shard0(OnLoss::kFail);
  EXPECT_EQ(Shard0::RefuseTo(100, shard0.Deliver(100, HelloMessage(TestHello(0, 0)))).code(), 76u);
  pb::Hello hello = TestHello(0, 10);
  hello.set_epoch(UINT64_MAX);
  const pb::Refuse refuse = Shard0::RefuseTo(100, shard0.Deliver(100, HelloMessage(hello)));
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(), HasSubstr("18446744073709551615"));
  EXPECT_EQ(shard0.workers()[0].incarnation, 0u);
}

TEST(Hellos, OfServerShardsAreRefusedWhereOnlyWorkersSayHello) {
  pb::Hello hello = TestHello(0, 10);
  EXPECT_EQ(CheckWorkersHello(hello, hello).message(), "");
  hello.set_role(pb::Hello::shard);
  EXPECT_EQ(CheckHello(hello, hello).message(), "");
  EXPECT_EQ(CheckWorkersHello(hello, hello).code(), Code::kNotAllowed);
}

TEST(Hellos, OfRefusedPeersDoNotSetTheLengthOfTheJob) {
  Shard0 shard0(OnLoss::kFail);
  pb::Hello hello = TestHello(5, 10);
  hello.set_steps(7);
  shard0.Deliver(kStranger, HelloMessage(hello));
  EXPECT_EQ(shard0.coordinator().job().roster.steps, 0u);
  hello.set_rank(0);
  shard0.Deliver(100, HelloMessage(hello));
  EXPECT_EQ(shard0.coordinator().job().roster.steps, 7u);
  shard0.PassTime(milliseconds(3'500), {});  // rank 0 is lost before rank 1 has come
  shard0.GatherWorkers();
  EXPECT_EQ(shard0.coordinator().job().roster.steps, 100u);
}

// A worker of run 5 that holds the state after round `applied`.
pb::Hello HelloOfRun(uint32_t rank, uint64_t incarnation, uint64_t epoch, uint64_t run = 5,
                     uint64_t applied = 50) {
  pb::Hello hello = HelloWithState(rank, incarnation, applied, epoch);
  hello.set_run(run);
  return hello;
}

// While shard 0 gathers the workers again after its restart, the newer of two processes of a rank
// is the one with the higher epoch (the number of the membership). But anybody can say a number.
TEST(RankOfALiveWorker, IsNotTakenByAHigherEpochWithoutTheNumberOfTheRun) {
  for (const bool holder_is_fresh : {true, false}) {
    Shard0 shard0(OnLoss::kWait);
    shard0.Deliver(100, HelloMessage(holder_is_fresh ? TestHello(0, 10) : HelloOfRun(0, 10, 1)));
    for (const uint64_t run : {0, 6}) {
      const ControlActions out = shard0.Deliver(kStranger, HelloMessage(HelloOfRun(0, 66, 9, run)));
      EXPECT_EQ(Shard0::RefuseTo(kStranger, out).then(), pb::Refuse::retry);
      EXPECT_EQ(shard0.workers()[0].incarnation, 10u);
    }
  }
}

TEST(RankOfALiveWorker, IsTakenByAHigherEpochOfTheSameRun) {
  Shard0 shard0(TestOptions(1, 3, OnLoss::kWait));
  shard0.Deliver(100, HelloMessage(TestHello(0, 10)));
  const Message later_process = HelloMessage(HelloOfRun(0, 66, 9));
  shard0.Deliver(200, later_process);
  EXPECT_EQ(shard0.workers()[0].incarnation, 10u);
  shard0.Deliver(101, HelloMessage(HelloOfRun(1, 11, 3)));  // knows the run, too
  shard0.Deliver(200, later_process);
  EXPECT_EQ(shard0.workers()[0].incarnation, 66u);
}

TEST(Hellos, DoNotMakeTheEpochOfTheJobImpossiblyHigh) {
  Shard0 shard0(OnLoss::kWait);
  shard0.Deliver(100, HelloMessage(HelloOfRun(0, 10, 7)));
  const ControlActions out =
      shard0.Deliver(101, HelloMessage(HelloOfRun(1, 11, uint64_t{1} << 62)));
  EXPECT_TRUE(shard0.coordinator().running());
  EXPECT_EQ(FirstMessageTo(100, pb::Envelope::kWelcome, SendsOf(out)).head.welcome().epoch(), 8u);
}

TEST(Hellos, OfAnotherRunDoNotTurnAwayWorkersWithAFloor) {
  Shard0 shard0(OnLoss::kWait);
  shard0.Deliver(100, HelloMessage(HelloOfRun(0, 10, 3)));
  pb::Hello lie = HelloOfRun(1, 66, 3, 6, 1'000'000);
  lie.set_floor(1'000'000);
  const ControlActions out = shard0.Deliver(kStranger, HelloMessage(lie));
  EXPECT_FALSE(Shard0::RefuseTo(100, out).has_floor());
  EXPECT_EQ(shard0.workers()[0].incarnation, 10u);
}

TEST(Hellos, MustHaveTheStepsOfTheJob) {
  ControlOptions options = TestOptions(1, 2, OnLoss::kFail);
  options.steps = 100;
  Shard0 shard0(std::move(options));
  pb::Hello hello = TestHello(0, 66);
  hello.set_steps(5);
  EXPECT_THAT(
      Shard0::RefuseTo(kStranger, shard0.Deliver(kStranger, HelloMessage(hello))).sentence(),
      HasSubstr("worker 0 counts 5 steps, the job has 100"));
  shard0.GatherWorkers();
  EXPECT_TRUE(shard0.coordinator().running());
}

pb::Hello HelloWithData(uint32_t rank, uint64_t incarnation, uint64_t digest,
                        const std::string& text) {
  pb::Hello hello = TestHello(rank, incarnation);
  hello.set_data_digest(digest);
  hello.set_data_text(text);
  return hello;
}

TEST(Hellos, OfOtherDataAreRefusedAndSayWhatDiffers) {
  Shard0 shard0(TestOptions(1, 2, OnLoss::kWait));
  shard0.Deliver(100, HelloMessage(HelloWithData(0, 10, 7, "40 images (a, b)")));
  const auto refuse = [&](uint64_t digest, const std::string& text) {
    const pb::Hello hello = HelloWithData(1, 11, digest, text);
    return Shard0::RefuseTo(101, shard0.Deliver(101, HelloMessage(hello)));
  };
  const pb::Refuse refusal = refuse(8, "30 images (b,\nc)");
  EXPECT_EQ(refusal.code(), static_cast<uint32_t>(Code::kMismatch));
  EXPECT_EQ(refusal.then(), pb::Refuse::leave);
  EXPECT_EQ(refusal.sentence(),
            "worker 1 has 30 images (b,\\x0ac), worker 0 has 40 images (a, b); give all workers "
            "the same data");
  EXPECT_EQ(refuse(8, "40 images (a, b)").sentence(),
            "worker 1 has 40 images (a, b), worker 0 has as many, but with other class names, "
            "labels or sizes; give all workers the same data");
  EXPECT_LT(refuse(8, std::string(5000, 'x')).sentence().size(), 500u);
  EXPECT_FALSE(shard0.coordinator().running());
  shard0.Deliver(101, HelloMessage(HelloWithData(1, 11, 7, "40 images (a, b)")));
  EXPECT_TRUE(shard0.coordinator().running());
}

TEST(Hellos, AreComparedWithTheDataOfOtherLiveWorkersOnly) {
  Shard0 shard0(TestOptions(1, 2, OnLoss::kWait));
  shard0.Deliver(100, HelloMessage(HelloWithData(0, 10, 7, "40 images")));
  shard0.Deliver(100, ByeMessage(0, 10, Code::kTerminated, "stopped by a signal"));
  // Nobody else has data, and a program of one's own says nothing of its data.
  shard0.Deliver(101, HelloMessage(HelloWithData(1, 11, 8, "30 images")));
  shard0.Deliver(102, HelloMessage(TestHello(0, 12)));
  EXPECT_TRUE(shard0.coordinator().running());
}

TEST(Hellos, OfAnotherLaunchAreRefusedAndCannotStopTheJob) {
  ControlOptions options = TestOptions(1, 2, OnLoss::kFail);
  options.expected_hello.set_launch(5);
  Shard0 shard0(std::move(options));
  pb::Hello hello = TestHello(0, 66);
  hello.set_launch(6);
  hello.set_job_digest(0xabc);
  const pb::Refuse refuse =
      Shard0::RefuseTo(kStranger, shard0.Deliver(kStranger, HelloMessage(hello)));
  EXPECT_EQ(refuse.code(), static_cast<uint32_t>(Code::kNotAllowed));
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_THAT(refuse.sentence(), HasSubstr("worker 0 belongs to another run than the server"));
  Message stop = HeartbeatMessage(0, 66, 0);
  stop.head.mutable_heartbeat()->set_stop(143);
  shard0.Deliver(kStranger, stop);
  shard0.Deliver(kStranger, ByeMessage(0, 66, Code::kTerminated, "stopped by a signal"));
  // One of the same launch, and one that was started by hand.
  hello = TestHello(0, 10);
  hello.set_launch(5);
  shard0.Deliver(100, HelloMessage(hello));
  shard0.Deliver(101, HelloMessage(TestHello(1, 11)));
  EXPECT_TRUE(shard0.coordinator().running());
}

TEST(Hellos, OfAnyLaunchFitAServerThatWasStartedByHand) {
  Shard0 shard0(TestOptions(1, 2, OnLoss::kFail));
  for (const uint32_t rank : {0, 1}) {
    pb::Hello hello = TestHello(rank, 10 + rank);
    hello.set_launch(5);
    shard0.Deliver(100 + rank, HelloMessage(hello));
  }
  EXPECT_TRUE(shard0.coordinator().running());
}

TEST(Hellos, ThatDoNotFitAreToldWhichKeysDifferButNoValues) {
  ControlOptions options = TestOptions(1, 2, OnLoss::kFail);
  options.keys = {"seed", "train.algorithm", "train.optimizer.momentum"};
  for (const uint32_t digest : {11, 12, 13}) options.expected_hello.add_key_digests(digest);
  Shard0 shard0(std::move(options));
  pb::Hello hello = TestHello(0, 10);
  hello.set_job_digest(0xabc);
  for (const uint32_t digest : {11, 12, 99}) hello.add_key_digests(digest);
  ControlActions out = shard0.Deliver(100, HelloMessage(hello));
  EXPECT_EQ(
      Shard0::RefuseTo(100, out).sentence(),
      "the job differs from the server's in train.optimizer.momentum; start all from the same "
      "job file");
  EXPECT_THAT(Shard0::LogOf(out), HasSubstr("the peer's digest is 0000000000000abc, this server's "
                                            "0000000000000001"));
  hello.set_job("another");
  out = shard0.Deliver(100, HelloMessage(hello));
  EXPECT_THAT(Shard0::RefuseTo(100, out).sentence(), Not(HasSubstr("test")));
}

// The job is the same, so the file is not what differs.
TEST(Hellos, OfAnotherModelAreToldOfTensors) {
  Shard0 shard0(TestOptions(1, 2, OnLoss::kFail));
  pb::Hello hello = TestHello(0, 10);
  hello.set_model_digest(0xabc);
  const pb::Refuse refusal = Shard0::RefuseTo(100, shard0.Deliver(100, HelloMessage(hello)));
  EXPECT_EQ(refusal.code(), static_cast<uint32_t>(Code::kMismatch));
  EXPECT_EQ(refusal.sentence(),
            "the model differs from the server's, but the job does not; if the workers are "
            "programs of yours, all must have the same tensors: names, order, shapes, and which "
            "are trained");
}

TEST(Hellos, WithManyDifferentKeysAreNotToldWhich) {
  ControlOptions options = TestOptions(1, 2, OnLoss::kFail);
  for (uint32_t i = 0; i < 9; ++i) {
    options.keys.push_back("key" + std::to_string(i));
    options.expected_hello.add_key_digests(i + 1);
  }
  Shard0 shard0(std::move(options));
  pb::Hello hello = TestHello(0, 10);
  hello.set_job_digest(0xabc);
  const auto sentence = [&] {
    return Shard0::RefuseTo(100, shard0.Deliver(100, HelloMessage(hello))).sentence();
  };
  EXPECT_EQ(sentence(), "the job differs from the server's; start all from the same job file");
  for (uint32_t i = 0; i < 9; ++i) hello.add_key_digests(77);
  EXPECT_EQ(sentence(), "the job differs from the server's; start all from the same job file");
  for (int i = 4; i < 9; ++i) hello.set_key_digests(i, static_cast<uint32_t>(i) + 1);
  EXPECT_EQ(
      sentence(),
      "the job differs from the server's in key0, key1, key2, 1 more; start all from the same "
      "job file");
}

TEST(Hellos, ThatDoNotFitAreLoggedOnceASecond) {
  Shard0 shard0(OnLoss::kFail);
  pb::Hello hello = TestHello(0, 10);
  hello.set_job_digest(0xabc);
  int num_lines = 0;
  for (int i = 0; i < 500; ++i) {
    num_lines += Count(shard0.Deliver(kStranger, HelloMessage(hello)), ControlAction::Type::kLog);
  }
  EXPECT_EQ(num_lines, 1);
  shard0.PassTime(milliseconds(1000), {});
  EXPECT_THAT(Shard0::LogOf(shard0.Deliver(kStranger, HelloMessage(hello))),
              HasSubstr("(and 499 more before)"));
}

// Rank 1 belongs to worker 1. Another process asks for it.
class TakenRank : public testing::Test {
 protected:
  TakenRank() : shard0_(OnLoss::kWait) { shard0_.GatherWorkers(); }
  // The other process says hello. Returns what it is told to do.
  pb::Refuse Ask() {
    const ControlActions out = shard0_.Deliver(300, HelloMessage(TestHello(1, 50)));
    NoteMark(out);
    return Shard0::RefuseTo(300, out);
  }
  // Lets 50 ms pass. If `is_alive`, worker 1 sends a heartbeat that answers shard 0's newest pulse.
  void PassTime(bool is_alive, uint64_t progress, bool waiting) {
    NoteMark(shard0_.PassTime(milliseconds(100), {0}));
    if (!is_alive) return;
    Message heartbeat = HeartbeatMessage(1, 11, 0, progress, waiting);
    heartbeat.head.mutable_heartbeat()->set_pulse_mark(mark_);
    shard0_.Deliver(101, heartbeat);
  }
  void NoteMark(const ControlActions& actions) {
    const Message pulse = FirstMessageTo(101, pb::Envelope::kPulse, SendsOf(actions));
    if (pulse.head.has_pulse()) mark_ = pulse.head.pulse().mark();
  }

  Shard0 shard0_;
  uint64_t mark_ = 0;
};

TEST_F(TakenRank, IsRefusedWithinASecondWhileItsWorkerAdvances) {
  uint64_t progress = 0;
  int num_ticks = 0;
  for (; Ask().then() == pb::Refuse::retry && num_ticks < 50; ++num_ticks)
    PassTime(/*is_alive=*/true, ++progress, /*waiting=*/false);
  EXPECT_LT(num_ticks, 10);
  const pb::Refuse refuse = Ask();
  EXPECT_EQ(refuse.then(), pb::Refuse::leave);
  EXPECT_EQ(refuse.code(), 77u);
  EXPECT_THAT(refuse.sentence(), HasSubstr("rank 1 is taken by worker 1 (node1, pid 0), which is"));
}

TEST_F(TakenRank, IsNotRefusedForHeartbeatsThatADeadWorkerHadSent) {
  PassTime(/*is_alive=*/true, 1, /*waiting=*/true);
  const uint64_t last_mark = mark_;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ask().then(), pb::Refuse::retry);
    PassTime(/*is_alive=*/false, 0, false);
    Message late = HeartbeatMessage(1, 11, 0, 2 + i, true);
    late.head.mutable_heartbeat()->set_pulse_mark(last_mark);
    shard0_.Deliver(101, late);
  }
}

TEST_F(TakenRank, IsNotRefusedForAWorkerThatHangs) {
  PassTime(/*is_alive=*/true, 1, /*waiting=*/false);
  // Its thread advanced once more, and then hung, before its next heartbeat.
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ask().then(), pb::Refuse::retry);
    PassTime(/*is_alive=*/true, 2, /*waiting=*/false);
  }
}

TEST_F(TakenRank, IsNotRefusedForMarksOfAnotherProcessOfShard0) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ask().then(), pb::Refuse::retry);
    PassTime(/*is_alive=*/false, 0, false);
    Message heartbeat = HeartbeatMessage(1, 11, 0, 2 + i, true);
    heartbeat.head.mutable_heartbeat()->set_pulse_mark(0xfeedfacefeedface);
    shard0_.Deliver(101, heartbeat);
  }
}

TEST(WhatPeersSay, ComesIntoLogsWithoutControlCharacters) {
  Shard0 shard0(OnLoss::kFail);
  pb::Hello hello = TestHello(0, 10);
  hello.set_host("node\n\x1b[2J");
  EXPECT_THAT(Shard0::LogOf(shard0.Deliver(100, HelloMessage(hello))),
              HasSubstr("worker 0 (node\\x0a\\x1b[2J, pid 0) is here"));
  hello.set_job("\x1b]0;title\x07");
  EXPECT_THAT(Shard0::LogOf(shard0.Deliver(300, HelloMessage(hello))),
              testing::AllOf(HasSubstr("\\x1b]0;title"), Not(HasSubstr("\x1b"))));
  shard0.Deliver(101, HelloMessage(TestHello(1, 11)));
  const ControlActions out =
      shard0.Deliver(101, ByeMessage(1, 11, Code::kInternal, "a bug\nstep 30/30 done"));
  EXPECT_THAT(Shard0::AbortTo(100, out).sentence(), HasSubstr("a bug\\x0astep 30/30 done"));
}

TEST(WhatPeersSay, HasOnlyErrorCodesOfTern) {
  for (const uint32_t code : {65, 70, 74, 75, 76, 77, 78, 79, 130, 143})
    EXPECT_EQ(ExitCode(ErrorFromPeer(code, "said")), static_cast<int>(code));
  for (const uint32_t code : {0u, 1u, 71u, 256u, 321u, 4294967295u}) {
    const Status error = ErrorFromPeer(code, "said");
    EXPECT_EQ(error.code(), Code::kInternal) << code;
    EXPECT_THAT(error.message(), HasSubstr("exit code " + std::to_string(code)));
  }
  EXPECT_EQ(ErrorFromPeer(75, "a\\x1b b\x1b c").message(), "a\\x1b b\\x1b c")
      << "what was made printable before stays as it is";
  EXPECT_LT(ErrorFromPeer(75, std::string(50'000, 'x')).message().size(), 1100u);
}

TEST(WhatPeersSay, AnEndMayAlsoSayThatAllIsWell) {
  pb::End end;
  EXPECT_TRUE(StatusOf(end).ok());
  end.set_code(143);
  EXPECT_EQ(StatusOf(end).code(), Code::kTerminated);
  end.set_code(512);
  EXPECT_EQ(StatusOf(end).code(), Code::kInternal);
}

}  // namespace
}  // namespace tern::protocol::test
