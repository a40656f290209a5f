// Measures how fast the simulator of tests/sim plays schedules: random sequences of events
// (messages, losses, restarts) for the servers and workers of a job. It uses two threads and checks
// the invariants of every server and worker after every event. Half of the schedules have
// synchronous rounds, a quarter have no rounds, and a quarter have checkpoints and may lose all
// processes.
//   simulator [SCHEDULES] [FIRST_SEED]
// Prints the seconds. If a schedule fails, prints what was wrong and exits with code 1.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "tests/sim/play.h"

namespace {

using tern::sim::Schedule;

uint64_t ParseNumberOr(const char* text, uint64_t default_value) {
  return text == nullptr ? default_value : std::strtoull(text, nullptr, 10);
}

// Plays `num_schedules` schedules, the first with seed `first_seed`, the next with the next seed,
// and so on. Returns whether none failed.
bool PlaySchedules(const char* name, tern::sim::MakeSchedule make_schedule, uint64_t first_seed,
                   uint64_t num_schedules) {
  const auto begin = std::chrono::steady_clock::now();
  const auto failures = tern::sim::PlayAll(make_schedule, first_seed, num_schedules, {}, 5);
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin;
  std::cout << name << ": " << num_schedules << " schedules in " << duration.count() << " s\n";
  for (const std::string& failure : failures) std::cout << failure << "\n";
  return failures.empty();
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t num_schedules = ParseNumberOr(argc > 1 ? argv[1] : nullptr, 100'000);
  const uint64_t first_seed = ParseNumberOr(argc > 2 ? argv[2] : nullptr, 1);
  const auto begin = std::chrono::steady_clock::now();
  bool all_passed = PlaySchedules("with rounds", Schedule::Make, first_seed, num_schedules / 2);
  all_passed &=
      PlaySchedules("without rounds", Schedule::MakeWithoutRounds, first_seed, num_schedules / 4);
  all_passed &= PlaySchedules("where everybody is lost", Schedule::MakeWithCheckpoints, first_seed,
                              num_schedules / 4);
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin;
  std::cout << "all: " << num_schedules << " schedules in " << duration.count() << " s\n";
  return all_passed ? 0 : 1;
}
