// The line that a worker logs every metrics.log_every_s about its work, and shard 0 about that of
// all workers: step, loss, speed, bytes, and how the time was spent since the line before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "proto/job.pb.h"
#include "setup/job_position.h"

namespace tern::setup {

struct FigureLine {
  std::string text;
  LogNumbers numbers;  // for logs in JSON
};

// Returns the line for the time `interval` between two reports of the same workers. If there is
// more than one worker, times and bytes are means over them. `step`, `steps`: how many of the job's
// steps are done, and the job's length (0: not known yet). `may_lack_loss`: a loss that is not
// finite was not said by the programs, and is left out.
FigureLine DescribeFigures(const std::vector<WorkerStatus>& before,
                           const std::vector<WorkerStatus>& now, uint64_t step, uint64_t steps,
                           Time interval, bool may_lack_loss = false);

class FigureLog {
 public:
  explicit FigureLog(const pb::Job& job);

  // Logs the line if metrics.log_every_s have passed since the one before, or since the first call.
  // The other arguments: as above. `print`: whether it also goes to stderr.
  void LogIfDue(const std::vector<WorkerStatus>& workers, uint64_t step, uint64_t steps, Time now,
                Print print);
  // The same for the work of one worker, which is not printed.
  void LogIfDue(const pb::Counters& counters, uint64_t steps, Time now);

 private:
  const Time interval_;  // 0: log nothing
  const bool may_lack_loss_;
  std::optional<Time> began_at_;  // when the interval of the next line began; unset: never called
  std::vector<WorkerStatus> before_;  // the workers at that time
};

}  // namespace tern::setup
