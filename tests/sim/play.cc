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
  std::atomic<uint64_t> next = from;
  std::atomic<size_t> failed = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto play = [&] {
    while (failed < stop_at) {
      const uint64_t seed = next++;
      if (seed >= from + count) return;
      const std::string failure = Play(make(seed), safeguards);
      if (failure.empty()) continue;
      ++failed;
      const std::lock_guard lock(mutex);
      failures.push_back(failure);
    }
  };
  std::thread other(play);
  play();
  other.join();
  return failures;
}

}  // namespace tern::sim
