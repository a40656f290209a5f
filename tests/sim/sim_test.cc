// Simulates the protocol under faults. A schedule is a job with its faults, made from a seed. Plays
// 48,000 schedules of jobs with rounds, 23,000 of jobs without, 23,000 in which all processes or
// all workers are killed at once (fewer with a sanitizer), 2,000 in which all processes but some
// servers are, 6,000 in which hosts add up the pushes of their workers, 3,000 in which a bit of a
// worker's weights flips, 3,000 in which messages arrive damaged, 500 in which a stranger sends
// messages in the members' names, 40 in which hosts sleep for an hour, 10 in which a site does, 20
// of 256 workers, and 1,000 between sites far apart whose network loses messages. Also switches
// each safeguard of the protocol off (a mutant) and expects that the simulator finds a violation.
// Shard 0 is the server that leads the job.
//
// TERN_SIM_SEED=n plays only the schedule of seed n and logs every event (choose the test with
// --gtest_filter); TERN_SIM_FROM=n plays the schedules from seed n on; TERN_SIM_TIMES=n plays n
// times as many schedules (scripts/release_check.sh); TERN_SIM_WORKERS=n plays the jobs of many
// workers with n of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/sim/play.h"
#include "tests/sim/world.h"

namespace tern::sim {
namespace {

#ifdef __SANITIZE_ADDRESS__  // 20 times as slow
constexpr uint64_t kNumSchedules = 1'200, kNumClockSchedules = 600, kNumDamageSchedules = 300;
constexpr uint64_t kNumHostSchedules = 300;
constexpr uint64_t kNumFewSchedules = 200, kNumSleepSchedules = 4, kNumManySchedules = 1,
                   kNumSiteSchedules = 2;
#else
constexpr uint64_t kNumSchedules = 48'000, kNumClockSchedules = 23'000, kNumDamageSchedules = 3'000;
constexpr uint64_t kNumHostSchedules = 6'000;
constexpr uint64_t kNumFewSchedules = 1'000, kNumSleepSchedules = 40, kNumManySchedules = 20,
                   kNumSiteSchedules = 10;
#endif
constexpr uint64_t kNumMutantSchedules = 1'000;

// Makes a schedule in which shard 0 may die when only worker 0 has received a round's scalers, and
// worker 0 may die soon after it has pushed with these scalers. Such a schedule once failed; its
// events are in recorded/1075292.events.
Schedule MakeLostScalers(uint64_t seed) {
  Schedule schedule;
  for (uint64_t candidate = seed * 1'000;; ++candidate) {
    schedule = Schedule::Make(candidate);
    const bool has_two_workers_and_shards =
        schedule.workers == 2 && schedule.shards() > 1 && !schedule.is_central;
    if (schedule.shrinks() && schedule.elasticity.quorum == 0 && has_two_workers_and_shards) break;
  }
  Rng rng(seed);
  Fault kill_server;
  kill_server.kind = Fault::Kind::kKillServer;
  kill_server.point = Fault::Point::kPush;
  kill_server.round = 1 + rng.Below(schedule.rounds);
  kill_server.down_time = rng.Ms(20, 100);
  Fault kill_worker = kill_server;
  kill_worker.kind = Fault::Kind::kKillWorker;
  kill_worker.delay_after_point = rng.Ms(2, 10);
  kill_worker.down_time = rng.Ms(50, 300);
  schedule.faults = {kill_server, kill_worker};
  return schedule;
}

// Returns the number in an environment variable; `otherwise` if it is not set.
uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise = 1) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}
uint64_t FirstSeed() { return NumberFromEnvironment("TERN_SIM_FROM"); }

// Makes a job of TERN_SIM_WORKERS workers, 256 if that is not set, of which one is killed and comes
// back, and perhaps a server, too.
Schedule MakeWithManyWorkers(uint64_t seed) {
  Rng rng(seed);
  Schedule schedule;
  schedule.seed = seed;
  schedule.timings = Schedule::Make(seed).timings;
  schedule.workers = static_cast<uint32_t>(NumberFromEnvironment("TERN_SIM_WORKERS", 256));
  schedule.data_lanes.assign(1 + rng.Below(2), 1);
  schedule.window = 1 + static_cast<uint32_t>(rng.Below(2));
  schedule.longest_delay = rng.Ms(10, 100);
  schedule.reorder = rng.Chance(0.5) ? 0.05 : 0;
  Fault fault;
  fault.kind = Fault::Kind::kKillWorker;
  fault.target = fault.witness = static_cast<uint32_t>(rng.Below(schedule.workers));
  fault.point = Fault::Point::kPush;
  fault.round = 1 + rng.Below(schedule.rounds);
  fault.down_time = rng.Ms(20, 300);
  schedule.faults = {fault};
  if (rng.Chance(0.5)) {
    fault.kind = Fault::Kind::kKillServer;
    fault.target = static_cast<uint32_t>(rng.Below(schedule.shards()));
    schedule.faults.push_back(fault);
  }
  return schedule;
}

// A job on two sites. The second one, the upper half of the ranks, is away for an hour, and comes
// back as it went: its hosts sleep, or their processes are killed and started again. If seed is
// even, the job waits for them; else the others go on without, in a job that is not over by then.
Schedule MakeWithAbsentSite(uint64_t seed) {
  Rng rng(seed);
  Schedule schedule = Schedule::MakeWithSleep(2);
  schedule.seed = seed;
  schedule.workers = 4 + static_cast<uint32_t>(rng.Below(5));
  schedule.data_lanes.assign(1 + rng.Below(2), 1);
  schedule.window = 1 + static_cast<uint32_t>(rng.Below(2));
  schedule.is_central = schedule.exchanges_parts = schedule.has_skips = false;
  schedule.algorithm.clear();
  const bool waits = seed % 2 == 0;
  schedule.elasticity.on_loss = waits ? algorithm::OnLoss::kWait : algorithm::OnLoss::kShrink;
  schedule.rounds = waits ? 3 : 1'000;
  if (!waits) schedule.delay = 0.5;  // A round of seconds, so that an hour is not too many.
  schedule.longest_delay = std::chrono::milliseconds(waits ? 100 : 1800);
  schedule.reorder = 0.01;
  schedule.timings.wait_timeout = std::chrono::hours(2);
  Fault fault = schedule.faults[0];
  fault.all_others = false;
  fault.point = Fault::Point::kPush;
  fault.round = 2;
  const bool are_killed = rng.Chance(0.5);
  fault.kind = are_killed ? Fault::Kind::kKillWorker : Fault::Kind::kSleep;
  schedule.faults.clear();
  for (uint32_t rank = schedule.workers / 2; rank < schedule.workers; ++rank) {
    fault.witness = rank;
    fault.target = are_killed ? rank : schedule.shards() + rank;
    schedule.faults.push_back(fault);
  }
  return schedule;
}

void ExpectAllEndWell(MakeSchedule make_schedule, uint64_t count) {
  if (const char* seed = std::getenv("TERN_SIM_SEED"); seed != nullptr) {
    const std::string failure =
        Play(make_schedule(std::strtoull(seed, nullptr, 10)), {}, &std::cout);
    ASSERT_EQ(failure, "");
    return;
  }
  count *= NumberFromEnvironment("TERN_SIM_TIMES");
  for (const std::string& failure : PlayAll(make_schedule, FirstSeed(), count, {}, 5))
    ADD_FAILURE() << failure;
}

TEST(Simulator, EveryScheduleEndsAsIfNothingHadFailed) {
  ExpectAllEndWell(Schedule::Make, kNumSchedules);
}

TEST(Simulator, EveryScheduleThatLosesScalersEndsAsIfNothingHadFailed) {
  ExpectAllEndWell(MakeLostScalers, kNumFewSchedules);
}

TEST(Simulator, EveryScheduleWhoseHostsAddUpPushesEndsAsIfNothingHadFailed) {
  ExpectAllEndWell(Schedule::MakeWithHosts, kNumHostSchedules);
}

// Six workers on three hosts, without noise and faults.
TEST(Simulator, HostsSendOnePushForAllTheirWorkers) {
  uint64_t num_pushes[2];
  for (const bool has_hosts : {false, true}) {
    Schedule schedule;
    schedule.timings = Schedule::Make(1).timings;
    schedule.workers = 6;
    schedule.workers_a_host = has_hosts ? 2 : 0;
    schedule.data_lanes = {2, 1};
    schedule.rounds = 40;
    schedule.longest_delay = std::chrono::milliseconds(10);
    World world(schedule, {}, nullptr);
    EXPECT_EQ(world.Run(), "");
    num_pushes[has_hosts] = world.num_pushes();
    EXPECT_EQ(world.num_host_sums() > 3 * 4 * 35, has_hosts) << world.num_host_sums();
  }
  // Without hosts, six workers push four chunks in each round. With hosts, the rounds before all
  // workers have found their leader are as without.
  EXPECT_EQ(num_pushes[0], 6u * 4 * 40);
  EXPECT_LT(num_pushes[1], 6u * 4 * 40 * 55 / 100);
}

TEST(Simulator, EveryScheduleThatDamagesMessagesEndsAsIfNothingHadFailed) {
  ExpectAllEndWell(Schedule::MakeWithDamage, kNumDamageSchedules);
}

TEST(Simulator, EveryScheduleWhoseHostsSleepForAnHourEndsInOrderOrWithASentence) {
  ExpectAllEndWell(Schedule::MakeWithSleep, kNumSleepSchedules);
}

// A job of two workers in which the host of worker 1 sleeps for an hour.
Schedule MakeWithSleepingWorker(Time wait_timeout) {
  Schedule schedule = Schedule::MakeWithSleep(2);
  schedule.workers = 2;
  schedule.data_lanes = {1};
  schedule.is_central = schedule.exchanges_parts = false;
  schedule.algorithm.clear();
  schedule.elasticity.on_loss = algorithm::OnLoss::kWait;
  schedule.timings.wait_timeout = wait_timeout;
  schedule.timings.server_return_timeout = std::chrono::seconds(60);
  Fault& sleep = schedule.faults[0];
  sleep.target = schedule.shards() + 1;
  sleep.witness = sleep.round = 1;
  sleep.point = Fault::Point::kStart;
  sleep.all_others = false;
  return schedule;
}

TEST(Simulator, AWorkerWhoseHostSleptForAnHourGoesOnWhereItWas) {
  const Schedule schedule = MakeWithSleepingWorker(std::chrono::hours(2));
  World world(schedule, {}, nullptr);
  EXPECT_EQ(world.Run(), "");
  EXPECT_TRUE(world.StatusOfShard(0).ok()) << world.StatusOfShard(0).message();
  EXPECT_GT(world.now(), std::chrono::hours(1));
}

TEST(Simulator, AWorkerWhoseHostSleptForTooLongEndsSoonAfterItWakes) {
  const Schedule schedule = MakeWithSleepingWorker(std::chrono::minutes(10));
  World world(schedule, {}, nullptr);
  EXPECT_EQ(world.Run(), "");
  EXPECT_EQ(world.StatusOfShard(0).message(),
            "worker 1 (, pid 0) was lost and nobody took its place within 600.0 s");
  EXPECT_EQ(world.StatusOfWorker(0).message(), world.StatusOfShard(0).message());
  EXPECT_EQ(world.StatusOfWorker(1).code(), Code::kPeerLost);
  EXPECT_NE(world.StatusOfWorker(1).message(), "");
  EXPECT_LT(world.now(), std::chrono::minutes(62));
}

// A job between sites so far apart that an answer takes longer than a worker waits before it asks
// what became of its pushes, over links that carry a push in some milliseconds.
Schedule MakeWithFarSites(uint64_t seed) {
  Schedule schedule;
  schedule.seed = seed;
  schedule.timings = Schedule::Make(seed).timings;
  schedule.workers = 2 + seed % 3;
  schedule.data_lanes = {1, 1};
  schedule.trip = std::chrono::milliseconds(400);
  schedule.bytes_per_s = 4'000;
  return schedule;
}

TEST(Simulator, FarSitesSendNoPushTwice) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Schedule schedule = MakeWithFarSites(seed);
    World world(schedule, {}, nullptr);
    EXPECT_EQ(world.Run(), "");
    EXPECT_EQ(world.num_pushes(), schedule.workers * schedule.rounds * kNumBuckets * kNumChunks);
  }
}

// The same, where the network also loses messages.
Schedule MakeWithFarSitesAndLoss(uint64_t seed) {
  Schedule schedule = MakeWithFarSites(seed);
  schedule.loss = 0.03;
  return schedule;
}

TEST(Simulator, EveryScheduleOfFarSitesThatLosesMessagesEndsAsIfNoneWereLost) {
  ExpectAllEndWell(MakeWithFarSitesAndLoss, kNumFewSchedules);
}

TEST(Simulator, EveryScheduleWhoseSecondSiteIsAwayForAnHourEndsAsIfItHadNotGone) {
  ExpectAllEndWell(MakeWithAbsentSite, kNumSiteSchedules);
}

TEST(Simulator, EveryScheduleOfManyWorkersEndsAsIfNothingHadFailed) {
  ExpectAllEndWell(MakeWithManyWorkers, kNumManySchedules);
}

TEST(Simulator, EveryScheduleWithAStrangerEndsAsIfThereWereNone) {
  ExpectAllEndWell(Schedule::MakeWithStranger, kNumFewSchedules / 2);
}

TEST(Simulator, EveryScheduleWithoutRoundsKeepsItsPromises) {
  ExpectAllEndWell(Schedule::MakeWithoutRounds, kNumClockSchedules);
}

TEST(Simulator, EveryScheduleWithCheckpointsEndsAsIfNothingHadBeenLost) {
  ExpectAllEndWell(Schedule::MakeWithCheckpoints, kNumClockSchedules);
}

TEST(Simulator, EveryScheduleWhoseFollowersSurviveAllOthersEndsAsIfNothingHadBeenLost) {
  ExpectAllEndWell(Schedule::MakeWithSurvivors, 2 * kNumFewSchedules);
}

TEST(Simulator, EveryElasticScheduleWithCheckpointsGoesOnFromThoseOfAnyWorker) {
  ExpectAllEndWell(Schedule::MakeElasticWithCheckpoints, kNumFewSchedules);
}

TEST(Simulator, EveryScheduleWithAFlippedBitEndsAsIfNoneHadFlipped) {
  ExpectAllEndWell(Schedule::MakeWithFlippedBit, 3 * kNumFewSchedules);
}

struct Mutant {
  const char* name;
  MakeSchedule make_schedule;
  bool protocol::Safeguards::*safeguard;
};

class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, AreCaughtWithinAThousandSchedules) {
  protocol::Safeguards safeguards;
  safeguards.*GetParam().safeguard = false;
  EXPECT_FALSE(
      PlayAll(GetParam().make_schedule, FirstSeed(), kNumMutantSchedules, safeguards, 1).empty());
}

TEST(Mutants, ProcessesThatIgnoreDamagedMessagesAreCaught) {
  const MakeSchedule make_schedule = [](uint64_t seed) {
    Schedule schedule = Schedule::MakeWithDamage(seed);
    schedule.ignores_damage = true;
    return schedule;
  };
  EXPECT_FALSE(PlayAll(make_schedule, FirstSeed(), kNumMutantSchedules, {}, 1).empty());
}

TEST(Mutants, NoneFailsWithAllSafeguardsInPlace) {
  EXPECT_TRUE(PlayAll(Schedule::Make, FirstSeed(), kNumFewSchedules, {}, 1).empty());
  EXPECT_TRUE(PlayAll(Schedule::MakeWithoutRounds, FirstSeed(), kNumFewSchedules, {}, 1).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Each, Mutants,
    testing::Values(
        Mutant{"CountOnce", Schedule::Make, &protocol::Safeguards::count_once},
        Mutant{"FenceIncarnations", Schedule::Make, &protocol::Safeguards::fence_incarnations},
        Mutant{"HeedEpochs", MakeLostScalers, &protocol::Safeguards::heed_epochs},
        Mutant{"KeepUntilApplied", Schedule::Make, &protocol::Safeguards::keep_until_applied},
        Mutant{"CountClocksOnce", Schedule::MakeWithoutRounds, &protocol::Safeguards::count_once},
        Mutant{"FenceClocks", Schedule::MakeWithoutRounds,
               &protocol::Safeguards::fence_incarnations},
        Mutant{"KeepBound", Schedule::MakeWithoutRounds, &protocol::Safeguards::delay_fast_workers},
        Mutant{"FenceConnections", Schedule::MakeWithStranger,
               &protocol::Safeguards::fence_connections},
        Mutant{"FenceShards", Schedule::MakeWithStranger, &protocol::Safeguards::fence_shards},
        Mutant{"AskForRun", Schedule::MakeWithStranger, &protocol::Safeguards::ask_for_run},
        Mutant{"HeedOwnSilence", Schedule::Make, &protocol::Safeguards::heed_own_silence},
        Mutant{"NameLastStep", Schedule::MakeWithoutRounds, &protocol::Safeguards::name_last_step}),
    [](const auto& info) { return info.param.name; });

TEST(Simulator, PlaysASeedTheSameWayTwice) {
  for (const Schedule& schedule : {Schedule::Make(7), Schedule::MakeWithoutRounds(7)}) {
    World first_world(schedule, {}, nullptr), second_world(schedule, {}, nullptr);
    EXPECT_EQ(first_world.Run(), second_world.Run());
    EXPECT_EQ(first_world.num_events(), second_world.num_events());
    EXPECT_EQ(first_world.now(), second_world.now());
    EXPECT_GT(first_world.num_messages(), 0u);
  }
}

}  // namespace
}  // namespace tern::sim
