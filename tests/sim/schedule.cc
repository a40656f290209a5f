#include "tests/sim/schedule.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace tern::sim {

namespace {

using std::chrono::milliseconds;

constexpr Time kHour = std::chrono::hours(1);

protocol::Timings MakeTimings() {
  protocol::Timings timings;
  timings.heartbeat = milliseconds(250);
  timings.suspect_after = milliseconds(1500);
  timings.dead_after = milliseconds(3000);
  timings.start_timeout = timings.wait_timeout = milliseconds(60'000);
  timings.progress_timeout = milliseconds(60'000);
  // A process that is suspended while all others end finds no peer when it continues. It ends by
  // itself after this time.
  timings.server_return_timeout = milliseconds(20'000);
  timings.hello_retry = milliseconds(100);
  timings.resend_after = milliseconds(300);
  return timings;
}

void DrawNoise(Rng* rng, Schedule* schedule) {
  if (rng->Chance(0.5)) schedule->loss = rng->Chance(0.8) ? 0.03 : 0.12;
  if (rng->Chance(0.5)) schedule->duplicate = rng->Chance(0.8) ? 0.05 : 0.25;
  if (rng->Chance(0.4)) schedule->reorder = 0.1;
  if (rng->Chance(0.4)) schedule->delay = 0.05;
  schedule->longest_delay = milliseconds(rng->Chance(0.5) ? 100 : 1200);
}

Fault DrawFault(const Schedule& schedule, Rng* rng) {
  using Kind = Fault::Kind;
  constexpr Kind kFaultKinds[] = {Kind::kKillWorker,     Kind::kKillWorker,   Kind::kKillServer,
                                  Kind::kKillServer,     Kind::kKillServer,   Kind::kCutConnections,
                                  Kind::kCutConnections, Kind::kFreezeWorker, Kind::kReplaceWorker,
                                  Kind::kCutServer,      Kind::kCutServer};
  constexpr Kind kStopKinds[] = {Kind::kStop, Kind::kStopWorker, Kind::kStopAll};
  Fault fault;
  fault.kind = rng->Chance(0.1) ? kStopKinds[rng->Below(std::size(kStopKinds))]
                                : kFaultKinds[rng->Below(std::size(kFaultKinds))];
  const bool targets_server = fault.kind == Kind::kKillServer || fault.kind == Kind::kStop ||
                              fault.kind == Kind::kCutServer;
  fault.target =
      static_cast<uint32_t>(rng->Below(targets_server ? schedule.shards() : schedule.workers));
  fault.witness =
      targets_server ? static_cast<uint32_t>(rng->Below(schedule.workers)) : fault.target;
  fault.point = static_cast<Fault::Point>(rng->Below(5));
  fault.round = 1 + rng->Below(schedule.rounds);
  if (rng->Chance(0.7)) fault.delay_after_point = rng->Ms(0, 30);
  fault.down_time = rng->Chance(0.7) ? rng->Ms(20, 300) : rng->Ms(300, 2500);
  // Kills more workers just when they leave: a late Bye (the last message of a worker) from a dead
  // process is the most harmful of all late messages.
  if (fault.kind == Kind::kKillWorker && rng->Chance(0.25)) fault.point = Fault::Point::kLeaving;
  if (fault.kind == Kind::kFreezeWorker) fault.down_time = rng->Ms(1000, 6000);
  if (fault.kind == Kind::kCutServer) fault.down_time = rng->Ms(500, 9000);
  if (fault.kind == Kind::kReplaceWorker) fault.down_time = rng->Ms(3500, 8000);
  fault.hold = rng->Chance(0.7);
  fault.for_good = schedule.shrinks() && rng->Chance(0.4);
  return fault;
}

// Turns the schedule into one of a job that fails at the first loss of a worker. One worker dies
// and stays away.
void DrawFailure(Rng* rng, Schedule* schedule) {
  schedule->elasticity.on_loss = algorithm::OnLoss::kFail;
  schedule->loss = rng->Chance(0.5) ? 0.02 : 0;
  schedule->delay = 0;
  Fault fault = DrawFault(*schedule, rng);
  fault.kind = Fault::Kind::kKillWorker;
  fault.target = fault.witness = static_cast<uint32_t>(rng->Below(schedule->workers));
  if (fault.point == Fault::Point::kJoining) fault.point = Fault::Point::kStart;
  schedule->faults = {fault};
}

// Turns the schedule into one of a job whose rounds may close without some workers.
void DrawElasticity(Rng* rng, Schedule* schedule) {
  algorithm::Elasticity& elasticity = schedule->elasticity;
  const bool shrinks = rng->Chance(0.6);
  if (shrinks) elasticity.on_loss = algorithm::OnLoss::kShrink;
  if (!shrinks || rng->Chance(0.3))
    elasticity.quorum = schedule->workers - 1 - (schedule->workers == 4 && rng->Chance(0.3));
  // The start timeout is short, because after a restart the first server may wait that long for a
  // rank that was removed and never comes back.
  if (shrinks) schedule->timings.start_timeout = milliseconds(12'000);
}

// Draws properties of algorithms other than plain synchronous SGD.
void DrawAlgorithm(Rng* rng, Schedule* schedule) {
  if (rng->Chance(0.15)) {
    schedule->exchanges_parts = true;
    schedule->window = 1;
    schedule->rounds = 2 * schedule->rounds + 1;
    schedule->elasticity.quorum = 0;
  } else {
    schedule->is_central = rng->Chance(0.25);
    if (schedule->is_central) schedule->algorithm = schedule->window == 2 ? "odsgd" : "ssgd";
    schedule->save_every = 1 + rng->Below(3);
  }
}

void DrawFaults(Rng* rng, Schedule* schedule) {
  const double fraction = static_cast<double>(rng->Below(100)) / 100;
  const int num_faults = fraction < 0.3 ? 0 : fraction < 0.75 ? 1 : fraction < 0.95 ? 2 : 3;
  for (int i = 0; i < num_faults; ++i) {
    schedule->faults.push_back(DrawFault(*schedule, rng));
  }
  const bool is_quiet =
      schedule->loss + schedule->duplicate + schedule->delay + schedule->reorder == 0;
  // A fault may find no target when it is injected. Adds noise so that something goes wrong anyway.
  if (is_quiet) schedule->loss = schedule->duplicate = schedule->reorder = 0.05;
}

// Draws the algorithm that the servers run, for a job whose servers hold the weights.
void DrawServerAlgorithm(Rng* rng, Schedule* schedule) {
  constexpr const char* kNeverWaitingAlgorithms[] = {"asgd", "dcasgd_c", "dcasgd_a", "easgd_async"};
  const bool is_plain_asgd = schedule->algorithm == "asgd" && schedule->clocks.pull_every == 1;
  if (is_plain_asgd) schedule->algorithm = kNeverWaitingAlgorithms[rng->Below(4)];
  if (schedule->algorithm == "ssgd" && rng->Chance(0.3)) schedule->algorithm = "easgd";
  // Answers may be changes of the weights only in jobs with rounds, and under asgd and ssp. Under
  // other algorithms without rounds, rounding could make a worker's weights differ from the
  // server's.
  const bool adds_pushes_only = schedule->algorithm == "asgd" || schedule->algorithm == "ssp";
  schedule->sends_changes = (schedule->has_rounds() || adds_pushes_only) && rng->Chance(0.3);
}

// Draws what only jobs whose servers hold the weights have: an algorithm and disk faults. Uses
// random numbers of its own, so that all other draws do not depend on them.
void DrawServerProperties(Schedule* schedule) {
  if (!schedule->servers_hold_state()) return;
  Rng rng(schedule->seed ^ 0xd15c);
  DrawServerAlgorithm(&rng, schedule);
  // Whether a disk fault that may destroy a checkpoint was drawn. A job with rounds survives no
  // second one.
  bool drew_checkpoint_loss = false;
  const auto may_lose_checkpoint = [&] {
    return !schedule->has_rounds() || !std::exchange(drew_checkpoint_loss, true);
  };
  if (rng.Chance(0.2) && may_lose_checkpoint()) {
    schedule->full_disk = {static_cast<uint32_t>(rng.Below(schedule->shards())), rng.Below(40),
                           schedule->has_rounds() ? 1 : 1 + rng.Below(8)};
  }
  for (Fault& fault : schedule->faults) {
    if (fault.kind != Fault::Kind::kKillServer) continue;
    fault.disk = static_cast<Fault::Disk>(rng.Below(5));
    fault.change = rng.Below(24);
    const bool keeps_checkpoints =
        fault.disk == Fault::Disk::kStays || fault.disk == Fault::Disk::kPower;
    if (!keeps_checkpoints && !may_lose_checkpoint()) fault.disk = Fault::Disk::kPower;
  }
}

Schedule BeginSchedule(uint64_t seed, Rng* generator) {
  Rng& rng = *generator;
  Schedule schedule;
  schedule.seed = seed;
  schedule.timings = MakeTimings();
  schedule.workers = 2 + static_cast<uint32_t>(rng.Below(3));
  const uint64_t shards = 1 + rng.Below(2);
  for (uint64_t s = 0; s < shards; ++s) {
    schedule.data_lanes.push_back(1 + static_cast<uint32_t>(rng.Below(2)));
  }
  schedule.rounds = 3 + rng.Below(3);
  DrawNoise(&rng, &schedule);
  return schedule;
}

}  // namespace

Schedule Schedule::Make(uint64_t seed) {
  Rng rng(seed);
  Schedule schedule = BeginSchedule(seed, &rng);
  if (rng.Chance(0.3)) schedule.window = 2;
  schedule.has_skips = rng.Chance(0.2);
  if (rng.Chance(0.3)) {
    DrawElasticity(&rng, &schedule);
  } else if (rng.Chance(0.05)) {
    DrawFailure(&rng, &schedule);
    return schedule;
  }
  DrawAlgorithm(&rng, &schedule);
  DrawFaults(&rng, &schedule);
  DrawServerProperties(&schedule);
  return schedule;
}

Schedule Schedule::MakeWithoutRounds(uint64_t seed) {
  Rng rng(seed);
  Schedule schedule = BeginSchedule(seed, &rng);
  Clocks& clocks = schedule.clocks;
  clocks.pushes = schedule.rounds * schedule.workers;
  clocks.save_every = 2 + rng.Below(6);
  const uint64_t algorithm_index = rng.Below(5);
  constexpr const char* kAlgorithms[] = {"ssp", "ssp", "softsync", "asgd", "asgd"};
  schedule.algorithm = kAlgorithms[algorithm_index];
  if (algorithm_index <= 1) clocks.bound = rng.Below(4);
  if (algorithm_index == 3) clocks.pull_every = 2 + rng.Below(2);
  if (rng.Chance(0.25)) clocks.max_staleness = schedule.workers - 1 + rng.Below(4);
  if (rng.Chance(0.3)) {
    schedule.elasticity.on_loss = algorithm::OnLoss::kShrink;
    schedule.timings.start_timeout = milliseconds(12'000);
  } else if (rng.Chance(0.05)) {
    DrawFailure(&rng, &schedule);
    return schedule;
  }
  DrawFaults(&rng, &schedule);
  DrawServerProperties(&schedule);
  return schedule;
}

Schedule Schedule::MakeWithCheckpoints(uint64_t seed) {
  Rng rng(seed);
  Schedule schedule = BeginSchedule(seed, &rng);
  if (rng.Chance(0.4)) schedule.window = 2;
  schedule.has_skips = rng.Chance(0.2);
  schedule.rounds += rng.Below(4);
  schedule.checkpoint_every = 1 + rng.Below(3);
  DrawFaults(&rng, &schedule);
  // Leaves out the faults whose outcome these jobs do not define: a stop request is lost when shard
  // 0 is killed, and of two processes with the same rank one is refused. Schedule::Make draws them.
  std::erase_if(schedule.faults, [](const Fault& fault) {
    return fault.IsStop() || fault.kind == Fault::Kind::kReplaceWorker;
  });
  const uint64_t num_disasters = 1 + rng.Below(2);
  for (uint64_t i = 0; i < num_disasters; ++i) {
    Fault fault = DrawFault(schedule, &rng);
    fault.kind = rng.Chance(0.7) ? Fault::Kind::kKillAll : Fault::Kind::kKillWorkers;
    fault.target = fault.witness = static_cast<uint32_t>(rng.Below(schedule.workers));
    fault.hold = rng.Chance(0.3);
    fault.for_good = rng.Chance(0.1);
    schedule.faults.push_back(fault);
  }
  schedule.keeps_own_state = rng.Chance(0.5);
  return schedule;
}

Schedule Schedule::MakeWithSurvivors(uint64_t seed) {
  Rng rng(seed ^ 0x5afe);
  Schedule schedule;
  const auto fits = [&schedule] {
    return schedule.shards() > 1 && !schedule.is_central && schedule.is_deterministic() &&
           schedule.elasticity.on_loss == algorithm::OnLoss::kWait;
  };
  for (uint64_t candidate = seed * 100; !fits(); ++candidate)
    schedule = seed % 4 == 0 ? MakeWithCheckpoints(candidate) : Make(candidate);
  schedule.seed = seed;
  std::erase_if(schedule.faults, [](const Fault& fault) {
    return fault.IsStop() || fault.kind == Fault::Kind::kReplaceWorker;
  });
  Fault fault = DrawFault(schedule, &rng);
  fault.kind = Fault::Kind::kKillAllButFollowers;
  fault.target = fault.witness = static_cast<uint32_t>(rng.Below(schedule.workers));
  fault.hold = fault.for_good = false;
  schedule.faults.push_back(fault);
  return schedule;
}

Schedule Schedule::MakeElasticWithCheckpoints(uint64_t seed) {
  Schedule schedule = MakeWithCheckpoints(seed);
  schedule.elasticity = {0, algorithm::OnLoss::kShrink, 1};
  schedule.timings.start_timeout = milliseconds(12'000);
  return schedule;
}

Schedule Schedule::MakeWithFlippedBit(uint64_t seed) {
  Schedule schedule = MakeWithCheckpoints(seed);
  Rng rng(seed ^ 0xf11b);
  // A new process of shard 0 does not know at which round the replicas agreed.
  std::erase_if(schedule.faults, [](const Fault& fault) {
    const bool kills_follower = fault.kind == Fault::Kind::kKillServer && fault.target != 0;
    return !kills_follower && fault.kind != Fault::Kind::kCutServer &&
           fault.kind != Fault::Kind::kCutConnections;
  });
  if (rng.Chance(0.3)) {
    schedule.elasticity.on_loss = algorithm::OnLoss::kShrink;
  } else if (rng.Chance(0.3)) {
    schedule.elasticity.quorum = schedule.workers - 1;
  }
  Fault flip;
  flip.kind = Fault::Kind::kFlipBit;
  flip.target = flip.witness = static_cast<uint32_t>(rng.Below(schedule.workers));
  flip.point = Fault::Point::kApplied;
  flip.round = 1 + rng.Below(schedule.rounds - 1);
  flip.delay_after_point = rng.Ms(0, 10);
  schedule.faults.push_back(flip);
  return schedule;
}

Schedule Schedule::MakeWithDamage(uint64_t seed) {
  Schedule schedule = seed % 2 == 0 ? Make(seed) : MakeWithoutRounds(seed);
  schedule.damage = seed % 3 == 0 ? 0.05 : 0.005;
  if (seed % 4 < 2) return schedule;
  schedule.damage_stays = true;
  schedule.damage = 0.01;
  schedule.loss = schedule.delay = 0;
  schedule.faults.clear();
  schedule.elasticity = {0, algorithm::OnLoss::kFail, 1};
  return schedule;
}

Schedule Schedule::MakeWithSleep(uint64_t seed) {
  Schedule schedule = seed % 2 == 0 ? Make(seed) : MakeWithoutRounds(seed);
  Rng rng(seed ^ 0x51ee9);
  schedule.loss = schedule.delay = 0;
  schedule.full_disk = {};
  schedule.elasticity.on_loss = static_cast<algorithm::OnLoss>(rng.Below(3));
  schedule.elasticity.quorum = 0;
  protocol::Timings& timings = schedule.timings;
  timings.heartbeat = milliseconds(2'000);  // An hour with the usual intervals has too many events.
  timings.suspect_after = milliseconds(12'000);
  timings.dead_after = milliseconds(24'000);
  timings.hello_retry = milliseconds(800);
  timings.resend_after = milliseconds(2'400);
  timings.start_timeout = milliseconds(60'000);
  timings.progress_timeout = 2 * kHour;  // The simulated workers never say that they wait.
  const bool is_patient = rng.Chance(0.5);
  timings.wait_timeout = is_patient ? kHour + kHour / 6 : kHour / 6;
  timings.server_return_timeout = is_patient ? timings.wait_timeout : kHour / 60;
  Fault sleep;
  sleep.kind = Fault::Kind::kSleep;
  sleep.target = static_cast<uint32_t>(rng.Below(schedule.shards() + schedule.workers));
  sleep.witness = static_cast<uint32_t>(rng.Below(schedule.workers));
  sleep.point = static_cast<Fault::Point>(rng.Below(3));
  sleep.round = 1 + rng.Below(schedule.rounds);
  sleep.down_time = kHour;
  sleep.hold = rng.Chance(0.5);
  sleep.all_others = rng.Chance(0.3);
  schedule.faults = {sleep};
  return schedule;
}

Schedule Schedule::MakeWithHosts(uint64_t seed) {
  Rng rng(seed ^ 0x4057);
  // Workers add up pushes only where they hold the parameters, and where rounds wait for all.
  Schedule schedule;
  for (uint64_t candidate = seed * 100; schedule.workers_a_host == 0; ++candidate) {
    schedule = seed % 4 == 0 ? MakeWithCheckpoints(candidate) : Make(candidate);
    if (!schedule.is_central && schedule.elasticity.quorum == 0)
      schedule.workers_a_host = 2 + static_cast<uint32_t>(rng.Below(3));
  }
  // More workers, so that a host has several and there are several hosts.
  schedule.workers += static_cast<uint32_t>(rng.Below(4));
  schedule.seed = seed;
  return schedule;
}

Schedule Schedule::MakeWithStranger(uint64_t seed) {
  Schedule schedule = seed % 2 == 0 ? Make(seed) : MakeWithoutRounds(seed);
  schedule.has_stranger = true;
  schedule.loss = schedule.delay = 0;
  schedule.faults.clear();
  schedule.full_disk = {};
  return schedule;
}

bool Schedule::HasFaultOfKind(Fault::Kind kind) const {
  return std::any_of(faults.begin(), faults.end(),
                     [kind](const Fault& f) { return f.kind == kind; });
}

static std::string ToString(const Clocks& clocks) {
  std::ostringstream text;
  text << ", " << clocks.pushes << " pushes";
  if (clocks.bound.has_value()) text << ", bound " << *clocks.bound;
  text << ", max_staleness " << clocks.max_staleness << ", a pull every " << clocks.pull_every
       << ", a checkpoint every " << clocks.save_every;
  return text.str();
}

std::string ToString(const Schedule& schedule) {
  const char* kind_names[] = {"kill worker",
                              "kill server",
                              "freeze worker",
                              "replace worker",
                              "cut connections of worker",
                              "cut server",
                              "stop",
                              "stop worker",
                              "stop all, beside",
                              "kill all",
                              "kill all workers",
                              "kill all but followers",
                              "flip a bit of worker",
                              "sleep"};
  const char* on_loss_names[] = {"fail", "wait", "shrink"};
  const char* point_names[] = {"start", "push", "applied", "leaving", "joining"};
  const auto ms = [](Time time) { return std::chrono::duration_cast<milliseconds>(time).count(); };
  std::ostringstream text;
  text << "seed " << schedule.seed << ": " << schedule.workers << " workers, data lanes";
  for (uint32_t num_lanes : schedule.data_lanes) text << " " << num_lanes;
  text << ", " << schedule.rounds << " rounds, window " << schedule.window
       << (schedule.has_skips ? ", some skip" : "")
       << (schedule.exchanges_parts ? ", in parts" : "")
       << (schedule.is_central
               ? ", central, a checkpoint every " + std::to_string(schedule.save_every)
               : "")
       << (schedule.servers_hold_state() ? ", " + schedule.algorithm : "")
       << (schedule.sends_changes ? ", answers are changes" : "") << ", quorum "
       << schedule.elasticity.quorum << ", "
       << on_loss_names[static_cast<int>(schedule.elasticity.on_loss)] << ", loss " << schedule.loss
       << ", duplicate " << schedule.duplicate << ", reorder " << schedule.reorder << ", delay "
       << schedule.delay << " up to " << ms(schedule.longest_delay) << " ms, damage "
       << schedule.damage << (schedule.damage_stays ? " from then on" : "")
       << (schedule.ignores_damage ? ", which is ignored" : "")
       << (schedule.has_stranger ? ", a stranger" : "");
  if (schedule.workers_a_host != 0) text << ", " << schedule.workers_a_host << " workers a host";
  if (!schedule.has_rounds()) text << ToString(schedule.clocks);
  if (schedule.checkpoint_every != 0) text << ", a checkpoint every " << schedule.checkpoint_every;
  if (schedule.keeps_own_state) text << ", workers keep state of their own";
  if (schedule.full_disk.changes != 0) {
    text << "; the disk of shard " << schedule.full_disk.shard << " is full for "
         << schedule.full_disk.changes << " changes from " << schedule.full_disk.from << " on";
  }
  const char* disk_texts[] = {"", ", losing power", ", in a change of its disk",
                              ", losing power in a change of its disk", ", tearing a file"};
  for (const Fault& fault : schedule.faults) {
    text << "; " << kind_names[static_cast<int>(fault.kind)] << " " << fault.target << ", "
         << ms(fault.delay_after_point) << " ms after worker " << fault.witness << " comes to "
         << point_names[static_cast<int>(fault.point)] << " of round " << fault.round << ", for "
         << (fault.for_good ? "ever, not " : "") << ms(fault.down_time) << " ms"
         << (fault.hold ? ", holding its messages" : "") << (fault.all_others ? ", all others" : "")
         << disk_texts[static_cast<int>(fault.disk)];
    if (fault.disk == Fault::Disk::kInWrite || fault.disk == Fault::Disk::kPowerInWrite)
      text << ", " << fault.change << " on";
  }
  return text.str();
}

}  // namespace tern::sim
