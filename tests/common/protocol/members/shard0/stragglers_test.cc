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
using testing::MatchesRegex;

// The times of a process's first steps are left out.
constexpr Time kBegin = std::chrono::seconds(1), kWarm = kBegin + std::chrono::seconds(3);

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
    for (uint32_t rank = 0; rank < 4; ++rank)
      EXPECT_THAT(stragglers.OnCounters(rank, CountersAfter(1, 1), kBegin), IsEmpty());
    uint64_t named_after_steps = 0;
    for (uint64_t steps = 0; steps <= 40 && named_after_steps == 0; steps += interval) {
      const Time now = kWarm + steps * std::chrono::milliseconds(500);
      for (uint32_t rank = 0; rank < 3; ++rank)
        EXPECT_THAT(stragglers.OnCounters(rank, CountersAfter(1 + 3 * steps, 0.01), now),
                    IsEmpty());
      const std::string message = stragglers.OnCounters(3, CountersAfter(1 + steps, 0.03), now);
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

// Caches fill, and other processes start: the first steps of a worker are longer than later ones,
// and short steps that are seen for a moment say little.
TEST(Stragglers, SayNothingOfAWorkersFirstSecondsOrOfAMoment) {
  Stragglers stragglers(2);
  uint64_t steps = 0;
  double compute_s = 0;
  for (Time now = kBegin; now < kBegin + std::chrono::seconds(20);
       now += std::chrono::milliseconds(250)) {
    const bool is_first = now < kWarm;
    const bool is_moment =
        now > kWarm + std::chrono::seconds(6) && now <= kWarm + std::chrono::milliseconds(6250);
    steps += 20;
    compute_s += is_first || is_moment ? 20 * 0.015 : 20 * 0.005;
    pb::Counters counters = CountersAfter(steps, 0);
    counters.set_compute_s(compute_s);
    EXPECT_THAT(stragglers.OnCounters(0, CountersAfter(steps, 0.005), now), IsEmpty());
    EXPECT_THAT(stragglers.OnCounters(1, counters, now), IsEmpty());
  }
}

// On busy cores, short steps take three times as long one moment and not the next.
TEST(Stragglers, LogAWorkerAtMostOnceAMinute) {
  Stragglers stragglers(2);
  int num_messages = 0;
  double compute_s = 0;
  for (uint64_t steps = 1; steps <= 3000; ++steps) {  // five minutes
    const Time now = steps * std::chrono::milliseconds(100);
    compute_s += steps / 100 % 2 == 0 ? 0.003 : 0.012;
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
  Time now{};
  for (uint64_t steps = 0; steps <= 20; ++steps) {
    now += std::chrono::seconds(1);
    stragglers.OnCounters(0, CountersAfter(steps, 0.01), now);
    stragglers.OnCounters(1, CountersAfter(steps, 0.01), now);
  }
  stragglers.Forget(1);
  for (const uint64_t steps : {1, 3, 5, 7, 9}) {  // Of these, 5 is the first that counts.
    EXPECT_THAT(stragglers.OnCounters(1, CountersAfter(steps, 5), now), IsEmpty()) << steps;
    now += std::chrono::seconds(2);
  }
  EXPECT_EQ(stragglers.OnCounters(1, CountersAfter(10, 5), now),
            " is slow: 5000 ms a step, the other 10 ms");
}

TEST(Stragglers, IgnoreImpossibleCounters) {
  Stragglers stragglers(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  Time now{};
  for (uint64_t steps = 0; steps <= 40; ++steps)
    stragglers.OnCounters(0, CountersAfter(steps, 0.01), now += std::chrono::seconds(1));
  for (double seconds : {nan, infinity, -infinity, -1.0}) {
    stragglers.Forget(1);
    for (const uint64_t steps : {1, 2, 3}) {
      stragglers.OnCounters(1, CountersAfter(steps, 0.01), now);
      now += std::chrono::seconds(2);
    }
    pb::Counters counters;
    counters.set_steps(~uint64_t{0});
    counters.set_compute_s(seconds);
    EXPECT_THAT(stragglers.OnCounters(1, counters, now), IsEmpty()) << seconds;
    EXPECT_THAT(stragglers.OnCounters(0, CountersAfter(1'000'000, 0.01), now), IsEmpty())
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
  for (int interval = 0; interval <= 30; ++interval) {
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
    if (interval < 20) {
      EXPECT_THAT(log, IsEmpty()) << interval;
    }
  }
  EXPECT_THAT(log, MatchesRegex("worker 2 \\(node2, pid 0\\) is slow: 30 ms a step, the others "
                                "10(\\.0)? ms\n"));
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutBackups, StragglersOfAJob, testing::Values(0, 2));

}  // namespace
}  // namespace tern::protocol::test
