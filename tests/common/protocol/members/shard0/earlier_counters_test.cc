// Tests of what shard 0 keeps of the counts that daemons have reported whose processes are gone. An
// incarnation is a random number; a process may take several, one after the other.
#include <gtest/gtest.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

constexpr uint64_t kProgressOfFirst = 5;  // of worker 1's first process

class EarlierCounters : public testing::Test {
 protected:
  EarlierCounters() {
    shard0_.GatherWorkers();
    Report(11, kProgressOfFirst, 100);
    shard0_.PassTime(milliseconds(3200), {0});  // Worker 1 is lost.
  }
  void Report(uint64_t incarnation, uint64_t progress, uint64_t samples) {
    Message message = HeartbeatMessage(1, incarnation, 4, progress);
    pb::Counters* counters = message.head.mutable_heartbeat()->mutable_counters();
    counters->set_samples(samples);
    counters->set_failed_checkpoints(2);
    counters->set_rounds(samples / 10);
    counters->set_job_step(samples / 10);
    counters->add_staleness(samples);
    counters->set_control_round_trip_max_s(0.5);
    counters->set_train_s(static_cast<double>(samples) / 100);
    pb::Traffic* traffic = counters->add_traffic();
    traffic->set_type("push");
    traffic->set_bytes_out(8 * samples);
    shard0_.Deliver(worker().peer, message);
  }
  void SayHello(uint64_t incarnation, uint32_t pid, uint64_t progress) {
    pb::Hello hello = TestHello(1, incarnation);
    hello.set_pid(pid);
    hello.set_progress(progress);
    shard0_.Deliver(101, HelloMessage(hello));
  }
  const Coordinator::Worker& worker() const { return shard0_.workers()[1]; }

  Shard0 shard0_{OnLoss::kWait};
};

TEST_F(EarlierCounters, OfALostProcessAreAddedToThoseOfTheNext) {
  EXPECT_EQ(worker().CountersOfAll().samples(), 100u);
  SayHello(21, 7, 0);
  EXPECT_EQ(worker().CountersOfAll().samples(), 100u);
  EXPECT_EQ(worker().CountersOfAll().job_step(), 0u) << "the new process is at no step yet";
  Report(21, 1, 30);
  const pb::Counters counters = worker().CountersOfAll();
  EXPECT_EQ(counters.samples(), 130u);
  EXPECT_EQ(counters.failed_checkpoints(), 4u);
  EXPECT_EQ(counters.staleness(0), 130u);
  EXPECT_EQ(counters.job_step(), 3u);
  EXPECT_DOUBLE_EQ(counters.train_s(), 1.3);
  EXPECT_EQ(counters.control_round_trip_max_s(), 0.5);
  ASSERT_EQ(counters.traffic_size(), 1);
  EXPECT_EQ(counters.traffic(0).bytes_out(), 8u * 130);
  EXPECT_EQ(worker().counters.samples(), 30u) << "rates are of the process";
  shard0_.PassTime(milliseconds(3200), {0});
  SayHello(31, 8, 0);
  EXPECT_EQ(worker().CountersOfAll().samples(), 130u);
}

TEST_F(EarlierCounters, OfAProcessThatComesBackAreCountedOnce) {
  SayHello(21, 0, kProgressOfFirst);
  EXPECT_EQ(worker().CountersOfAll().samples(), 100u);
  Report(21, kProgressOfFirst + 1, 110);
  EXPECT_EQ(worker().CountersOfAll().samples(), 110u);
}

// A worker that planned its network for so long that it was lost may return when that is done.
TEST_F(EarlierCounters, DoNotLoseAProcessAgainThatComesBack) {
  SayHello(21, 0, kProgressOfFirst);
  Message message = HeartbeatMessage(1, 21, 4, kProgressOfFirst);
  message.head.mutable_heartbeat()->mutable_counters()->set_planning_s(1e6);
  shard0_.Deliver(worker().peer, message);
  shard0_.PassTime(milliseconds(100), {0});
  ASSERT_EQ(worker().presence, Coordinator::Worker::Presence::kLost);
  SayHello(31, 0, kProgressOfFirst);
  shard0_.PassTime(milliseconds(100), {0});
  EXPECT_EQ(worker().presence, Coordinator::Worker::Presence::kPresent);
}

// In a container, every process may have the same number.
TEST_F(EarlierCounters, TellAProcessWithTheSameNumberByItsProgress) {
  SayHello(21, 0, 0);
  Report(21, 1, 10);
  EXPECT_EQ(worker().CountersOfAll().samples(), 110u);
}

TEST(EarlierFailures, OfAShardAreAddedToThoseOfItsNextProcess) {
  Shard0 shard0(OnLoss::kWait, 2);
  const auto say_hello = [&](uint64_t incarnation) {
    pb::Hello hello = TestHello(1, incarnation);
    hello.set_role(pb::Hello::shard);
    shard0.Deliver(200, HelloMessage(hello));
  };
  const auto report = [&](uint64_t num_failed) {
    Message message;
    message.head.mutable_pulse()->set_failed_checkpoints(num_failed);
    shard0.Deliver(200, message);
  };
  say_hello(51);
  shard0.GatherWorkers();
  report(3);
  say_hello(51);
  EXPECT_EQ(shard0.coordinator().FailedShardCheckpoints(), 3u);
  shard0.PassTime(milliseconds(1000), {0, 1});
  say_hello(52);
  EXPECT_EQ(shard0.coordinator().FailedShardCheckpoints(), 3u);
  report(1);
  EXPECT_EQ(shard0.coordinator().FailedShardCheckpoints(), 4u);
}

}  // namespace
}  // namespace tern::protocol::test
