// How fast the simulator plays (tests/sim), on two threads, with the invariants of every machine
// checked after every event: of the schedules, half have rounds, a quarter have none, and in a
// quarter everybody is lost.
//   simulator [SCHEDULES] [FROM]
// Prints seconds and, with exit code 1, what was wrong with a schedule.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "tests/sim/play.h"

namespace {

using tern::sim::Schedule;

uint64_t NumberOr(const char* text, uint64_t otherwise) {
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Plays `count` schedules, the first with seed `from`. Returns whether none failed.
bool PlaySchedules(const char* name, tern::sim::MakeSchedule make, uint64_t from, uint64_t count) {
  const auto begin = std::chrono::steady_clock::now();
  const auto failures = tern::sim::PlayAll(make, from, count, {}, 5);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << name << ": " << count << " schedules in " << took.count() << " s\n";
  for (const std::string& failure : failures) std::cout << failure << "\n";
  return failures.empty();
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t count = NumberOr(argc > 1 ? argv[1] : nullptr, 100'000);
  const uint64_t from = NumberOr(argc > 2 ? argv[2] : nullptr, 1);
  const auto begin = std::chrono::steady_clock::now();
  bool good = PlaySchedules("with rounds", Schedule::Make, from, count / 2);
  good &= PlaySchedules("without rounds", Schedule::MakeClocks, from, count / 4);
  good &= PlaySchedules("where everybody is lost", Schedule::MakeCheckpoints, from, count / 4);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << "all: " << count << " schedules in " << took.count() << " s\n";
  return good ? 0 : 1;
}
