#include "tests/sim/play.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "common/base/logging.h"
#include "tests/sim/world.h"

namespace tern::sim {

std::vector<std::string> PlayAll(MakeSchedule make, uint64_t from, uint64_t count,
                                 const protocol::Safeguards& safeguards, size_t stop_at) {
  // Without this, the servers' lanes log what they do after every fault.
  FLAGS_minloglevel = google::GLOG_FATAL;
  std::atomic<uint64_t> next_seed = from;
  std::atomic<size_t> failure_count = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto play_next_seeds = [&] {
    while (failure_count < stop_at) {
      const uint64_t seed = next_seed++;
      if (seed >= from + count) return;
      const std::string failure = Play(make(seed), safeguards);
      if (failure.empty()) continue;
      ++failure_count;
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
