#include "tests/sim/play.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

#include "common/base/log_sink.h"
#include "tests/sim/world.h"

namespace tern::sim {

std::vector<std::string> PlayAll(MakeSchedule make_schedule, uint64_t first_seed, uint64_t count,
                                 const protocol::Safeguards& safeguards, size_t max_failures) {
  // Without this, the servers' lanes log what they do after every fault.
  SetLogSink([](const LogRecord& record) {
    if (record.level == LogLevel::kFATAL)
      std::fprintf(stderr, "%.*s\n", static_cast<int>(record.message.size()),
                   record.message.data());
  });
  std::atomic<uint64_t> next_seed = first_seed;
  std::atomic<size_t> num_failures = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto play_next_seeds = [&] {
    while (num_failures < max_failures) {
      const uint64_t seed = next_seed++;
      if (seed >= first_seed + count) return;
      const std::string failure = Play(make_schedule(seed), safeguards);
      if (failure.empty()) continue;
      ++num_failures;
      const std::lock_guard lock(mutex);
      failures.push_back(failure);
    }
  };
  std::thread second_thread(play_next_seeds);
  play_next_seeds();
  second_thread.join();
  return failures;
}

}  // namespace tern::sim
