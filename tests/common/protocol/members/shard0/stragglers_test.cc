// Tests of Stragglers, which finds workers whose steps take longer than the others', from the
// counters in their heartbeats.
#include "common/protocol/members/shard0/stragglers.h"

#include <gmock/gmock.h>

#include "common/protocol/members/shard0/coordinator.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr Time kNow = milliseconds(1000);

// The counters of a worker after `steps` steps of `step_s` seconds each.
pb::Counters CountersAfter(uint64_t steps, double step_s) {
  pb::Counters counters;
  counters.set_steps(steps);
  counters.set_compute_s(static_cast<double>(steps) * step_s);
  return counters;
}

TEST(Stragglers, NamesASlowWorkerWithinTenOfItsStepsAndTwentyOfTheOthersWhereItIsHeardOften) {
  for (uint64_t interval : {1, 3, 8, 10}) {
    Stragglers stragglers(4);
    uint64_t named_after_steps = 0;
    for (uint64_t steps = 0; steps <= 40 && named_after_steps == 0; steps += interval) {
      for (uint32_t rank = 0; rank < 3; ++rank)
        EXPECT_THAT(stragglers.OnCounters(rank, CountersAfter(3 * steps, 0.01), kNow), IsEmpty());
      const std::string message = stragglers.OnCounters(3, CountersAfter(steps, 0.03), kNow);
      if (message.empty()) continue;
      named_after_steps = steps;
      EXPECT_EQ(message, " is slow: 30 ms a step, the others 10 ms");
    }
    EXPECT_GE(named_after_steps, 5u) << interval;
    EXPECT_LE(named_after_steps, 10u) << interval;
    if (interval <= 3) {
      EXPECT_LE(3 * named_after_steps, 20u) << interval;
    }
  }
}

// On busy cores, short steps take three times as long one moment and not the next.
TEST(Stragglers, LogAWorkerAtMostOnceAMinute) {
  Stragglers stragglers(2);
  int num_messages = 0;
  double compute_s = 0;
  for (uint64_t steps = 1; steps <= 3000; ++steps) {  // five minutes
    const Time now = steps * std::chrono::milliseconds(100);
    compute_s += steps / 10 % 2 == 0 ? 0.003 : 0.012;
    pb::Counters counters = CountersAfter(steps, 0);
    counters.set_compute_s(compute_s);
    stragglers.OnCounters(0, CountersAfter(steps, 0.003), now);
    num_messages += !stragglers.OnCounters(1, counters, now).empty();
  }
  EXPECT_GE(num_messages, 2);
  EXPECT_LE(num_messages, 6);
}

TEST(Stragglers, SaysItOnceAndWhenItIsOver) {
  Stragglers stragglers(2);
  std::vector<std::string> messages;
  uint64_t steps = 0;
  double worker1_compute_s = 0;
  Time now{};
  const auto run_steps = [&](int times, double step_s) {
    for (int i = 0; i < times; ++i) {
      ++steps;
      worker1_compute_s += step_s;
      now += std::chrono::seconds(5);
      stragglers.OnCounters(0, CountersAfter(steps, 0.005), now);
      pb::Counters counters = CountersAfter(steps, 0);
      counters.set_compute_s(worker1_compute_s);
      if (std::string message = stragglers.OnCounters(1, counters, now); !message.empty())
        messages.push_back(message);
    }
  };
  run_steps(30, 0.005);
  EXPECT_THAT(messages, IsEmpty());
  run_steps(20, 0.015);  // worker 1 becomes slow
  ASSERT_GE(messages.size(), 1u);
  EXPECT_THAT(messages.back(), HasSubstr(" is slow: "));
  const size_t num_messages_before = messages.size();
  run_steps(50, 0.015);
  EXPECT_EQ(messages.size(), num_messages_before);
  run_steps(20, 0.005);
  ASSERT_GT(messages.size(), num_messages_before);
  EXPECT_THAT(messages.back(), HasSubstr(" is not slow any more: "));
}

TEST(Stragglers, ForgetThePreviousProcessOfARank) {
  Stragglers stragglers(2);
  for (uint64_t steps = 0; steps <= 20; ++steps) {
    stragglers.OnCounters(0, CountersAfter(steps, 0.01), kNow);
    stragglers.OnCounters(1, CountersAfter(steps, 0.01), kNow);
  }
  stragglers.Forget(1);
  EXPECT_THAT(stragglers.OnCounters(1, CountersAfter(1, 5), kNow), IsEmpty());
  EXPECT_THAT(stragglers.OnCounters(1, CountersAfter(5, 5), kNow), IsEmpty());
  EXPECT_EQ(stragglers.OnCounters(1, CountersAfter(6, 5), kNow),
            " is slow: 5000 ms a step, the other 10 ms");
}

TEST(Stragglers, IgnoreImpossibleCounters) {
  Stragglers stragglers(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (uint64_t steps = 0; steps <= 40; ++steps)
    stragglers.OnCounters(0, CountersAfter(steps, 0.01), kNow);
  for (double seconds : {nan, infinity, -infinity, -1.0}) {
    stragglers.Forget(1);
    pb::Counters counters;
    stragglers.OnCounters(1, counters, kNow);
    counters.set_steps(~uint64_t{0});
    counters.set_compute_s(seconds);
    EXPECT_THAT(stragglers.OnCounters(1, counters, kNow), IsEmpty()) << seconds;
    EXPECT_THAT(stragglers.OnCounters(0, CountersAfter(1'000'000, 0.01), kNow), IsEmpty())
        << seconds;
  }
}

// Shard 0 finds slow workers by their heartbeats alone, whether or not it handles data. The
// parameter is the quorum: how many contributions close a round; 0: all.
class StragglersOfAJob : public testing::TestWithParam<uint32_t> {};

TEST_P(StragglersOfAJob, AreNamedInTheLog) {
  ControlOptions options;
  options.workers = 3;
  options.incarnation = 7;
  options.expected_hello = TestHello(0, 0);
  options.timings = TestTimings();
  options.elasticity.quorum = GetParam();
  Coordinator coordinator(std::move(options), {LetterCell({Kind::kScale, 0, 0})});
  ControlActions out;
  coordinator.Start({}, &out);
  for (uint32_t rank = 0; rank < 3; ++rank)
    coordinator.OnMessage(100 + rank, HelloMessage(TestHello(rank, 10 + rank)), {}, &out);
  std::string log;
  // Heartbeats come every 250 ms; the slow worker needs 30 ms a step. If the quorum is 0, the other
  // workers wait for the slow one in every round.
  for (int interval = 0; interval <= 3; ++interval) {
    const auto slow_steps = static_cast<uint64_t>(interval * 250 / 30);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      Message message = HeartbeatMessage(rank, 10 + rank, 0, static_cast<uint64_t>(interval));
      const bool is_slow = rank == 2;
      *message.head.mutable_heartbeat()->mutable_counters() = CountersAfter(
          is_slow || GetParam() == 0 ? slow_steps : 3 * slow_steps, is_slow ? 0.03 : 0.01);
      out.clear();
      coordinator.OnMessage(100 + rank, message, milliseconds(250 * interval), &out);
      for (const ControlAction& action : out) {
        if (action.type == ControlAction::Type::kLog) log += action.text + "\n";
      }
    }
    if (slow_steps < 5) {
      EXPECT_THAT(log, IsEmpty());
    }
  }
  EXPECT_EQ(log, "worker 2 (node2, pid 0) is slow: 30 ms a step, the others 10 ms\n");
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutBackups, StragglersOfAJob, testing::Values(0, 2));

}  // namespace
}  // namespace tern::protocol::test
