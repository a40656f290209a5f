// Keeps the status of the job on shard 0: the control thread updates it twice a second from what it
// sees anyway; the HTTP thread reads the newest one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "proto/wire.pb.h"
#include "server/status/job_status.h"
#include "server/status/observation.h"
#include "server/status/thinned_curve.h"
#include "server/status/work_window.h"
#include "setup/job_position.h"
#include "setup/setup.h"

namespace tern::server {

class StatusBoard {
 public:
  static constexpr size_t kMaxEvents = 50;

  // `setup` outlives this object.
  explicit StatusBoard(const setup::Setup& setup);

  // The following functions are called by the control thread only.

  // Makes a new status. `now`: of Now().
  void Update(const Observation& seen, const setup::JobPosition& position, Time now);
  // Adds what shard 0 logs of the job to the status that the next Update makes.
  void AddEvent(const std::string& text);
  // Adds the result of an evaluation if the message is one: an answer with the figures of all
  // workers. Repeated messages have no effect.
  void OnSent(const pb::Envelope& head, const Bytes& payload);

  // Any thread: the newest status; never null.
  std::shared_ptr<const JobStatus> status() const;

 private:
  void AddWorkers(const Observation& seen, Time now, JobStatus* status);
  void AddMeans(const Observation& seen, JobStatus* status) const;
  void AddCheckpoints(const Observation& seen, Time now, JobStatus* status);
  void AddSpeed(const setup::JobPosition& position, Time now, JobStatus* status);

  struct Position {
    Time at{};
    uint64_t step = 0;
  };

  const setup::Setup& setup_;
  std::vector<WorkWindow> windows_;  // by rank
  std::deque<Position> positions_;   // of the last half minute, the newest last
  ThinnedCurve<LossPoint> losses_;
  ThinnedCurve<TestPoint> tests_;
  uint64_t newest_test_round_ = 0;  // of the newest evaluation since the job began or went back
  uint64_t step_ = 0, steps_ = 0, beginning_ = 0, resumed_from_ = 0;  // of the newest Update
  std::deque<JobEvent> events_;
  uint64_t checkpoint_step_ = 0;
  std::optional<Time> checkpoint_at_;  // when it was written; unset: by an earlier process

  mutable Mutex mutex_;
  std::shared_ptr<const JobStatus> status_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern::server
