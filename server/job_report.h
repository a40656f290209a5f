// What a shard tells of the job: shard 0 its progress, to `tern run`, on the terminal and in the
// log, and every shard a summary at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "setup/figure_log.h"
#include "setup/run_result.h"
#include "setup/screen.h"
#include "setup/setup.h"

namespace tern::server {

class JobReport {
 public:
  // `progress_fd`: where `tern run` reads JSON lines; -1: a user has started this shard. Shard 0
  // then shows its progress on stderr: in place on a terminal, else as the lines of the log.
  // `setup` must outlive this object. Make it before this run writes to output_dir.
  JobReport(const setup::Setup& setup, uint32_t shard, int progress_fd);

  // Shard 0: reports the progress, as ProgressJson takes it.
  void ShowProgress(const std::vector<setup::WorkerStatus>& workers,
                    const setup::JobPosition& position, uint64_t failed_shard_checkpoints,
                    Time now);
  // Writes the summary to output_dir/server.SHARD.json (or, if the job has failed and that file is
  // of an earlier run that is worth keeping, to server.SHARD.failed.json: RunResult), to the log
  // and to progress_fd; shard 0 also prints the closing table for a user. `make_summary`:
  // SummaryJson with this status. Returns the final status, which says so if the file could not be
  // written.
  Status ShowSummary(const Status& status,
                     const std::function<std::string(const Status&)>& make_summary);

 private:
  const setup::Setup& setup_;
  const uint32_t shard_;
  const int progress_fd_;
  const setup::RunResult result_;
  setup::FigureLog figure_log_;
  std::optional<setup::Screen> screen_;  // only where lines are redrawn in place
};

}  // namespace tern::server
