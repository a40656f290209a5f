#include "common/base/armed_failpoints.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/failpoint.h"
#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/mutex.h"
#include "common/base/text.h"

namespace tern {
namespace {

constexpr uint64_t kMaxLoggedFirings = 10;

struct ArmedFailpoint {
  Failpoint failpoint;
  uint64_t num_hits = 0, num_firings = 0;

  // Counts a hit. Returns whether the failpoint fires.
  bool Hit();
  uint64_t Random(std::string_view purpose) const {
    return Digest(Cat(failpoint.seed, " ", static_cast<uint32_t>(failpoint.place), " ", num_hits,
                      " ", purpose));
  }
};

bool ArmedFailpoint::Hit() {
  ++num_hits;
  switch (failpoint.when) {
    case Failpoint::When::kOnce:
      return num_hits == failpoint.number;
    case Failpoint::When::kFrom:
      return num_hits >= failpoint.number;
    case Failpoint::When::kEvery:
      return num_hits % failpoint.number == 0;
    case Failpoint::When::kChance:
      return static_cast<double>(Random("fires")) <
             failpoint.chance * static_cast<double>(std::numeric_limits<uint64_t>::max());
    case Failpoint::When::kStep:
      return num_firings == 0 && failpoint_internal::job_step >= failpoint.number;
  }
  return false;
}

Mutex failpoints_mutex;
std::vector<ArmedFailpoint> armed_failpoints TERN_GUARDED_BY(failpoints_mutex);

// Counts a hit of every failpoint at this place. Returns the first one that fires.
std::optional<FiredFailpoint> CountHit(FailPlace place) {
  const MutexLock lock(failpoints_mutex);
  std::optional<FiredFailpoint> fired;
  for (ArmedFailpoint& armed : armed_failpoints) {
    if (armed.failpoint.place != place || !armed.Hit() || fired.has_value()) continue;
    fired = {armed.failpoint.action, armed.failpoint.amount_ns, armed.Random("bit")};
    if (armed.num_firings++ < kMaxLoggedFirings)
      LOG(WARNING) << "failpoint " << armed.failpoint.text << ": hit " << armed.num_hits
                   << " fires";
  }
  return fired;
}

void SleepFor(int64_t amount_ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(amount_ns));
}

}  // namespace

namespace failpoint_internal {

std::optional<FiredFailpoint> Fire(FailPlace place) {
  std::optional<FiredFailpoint> fired = CountHit(place);
  if (!fired.has_value()) return fired;
  switch (fired->action) {
    case FailAction::kDelay:
      SleepFor(fired->amount_ns);
      return std::nullopt;
    case FailAction::kHang:
      while (fired->amount_ns == 0) SleepFor(std::nano::den);
      SleepFor(fired->amount_ns);
      return std::nullopt;
    case FailAction::kDie:
      (void)kill(getpid(), SIGKILL);
      return std::nullopt;
    case FailAction::kAbort:
      std::abort();
    default:
      return fired;
  }
}

}  // namespace failpoint_internal

void ArmFailpoints(std::vector<Failpoint> failpoints) {
  const MutexLock lock(failpoints_mutex);
  armed_failpoints.clear();
  uint32_t places = 0;
  for (Failpoint& failpoint : failpoints) {
    places |= 1U << static_cast<uint32_t>(failpoint.place);
    armed_failpoints.push_back({std::move(failpoint)});
  }
  failpoint_internal::armed_places = places;
}

}  // namespace tern
