#include "server/job_report.h"

#include "common/base/line_pipe.h"
#include "common/base/logging.h"
#include "common/base/storage.h"
#include "common/base/terminal_line.h"
#include "common/base/text.h"
#include "setup/command_line.h"
#include "setup/report.h"

namespace tern::server {

JobReport::JobReport(const setup::Setup& setup, uint32_t shard, int progress_fd)
    : setup_(setup),
      shard_(shard),
      progress_fd_(progress_fd),
      result_(setup.job.output_dir(), Cat("server.", shard)),
      figure_log_(setup.job) {
  if (shard == 0 && progress_fd < 0 && StderrLine().is_in_place()) screen_.emplace(StderrLine());
}

void JobReport::ShowProgress(const std::vector<setup::WorkerStatus>& workers,
                             const setup::JobPosition& position, uint64_t failed_shard_checkpoints,
                             Time now) {
  const bool must_print = progress_fd_ < 0 && !screen_.has_value();
  figure_log_.LogIfDue(workers, position.steps_done(), position.steps(), now,
                       must_print ? Print::kYes : Print::kNo);
  if (must_print) return;
  const std::string json = setup::ProgressJson(setup_, workers, position, failed_shard_checkpoints);
  if (screen_.has_value()) screen_->ShowProgress(json, now);
  if (progress_fd_ >= 0 && !WriteLine(progress_fd_, json, LineValue::kPassing))
    VLOG(1) << "the progress is not read";
}

Status JobReport::ShowSummary(const Status& status,
                              const std::function<std::string(const Status&)>& make_summary) {
  (void)Disk().CreateFolders(setup_.job.output_dir());  // If that fails, the write fails, too.
  const setup::RunResult::WrittenSummary written =
      result_.WriteSummary(make_summary(status), ExitCode(status));
  LOG_IF(ERROR, !written.status.ok()) << written.status.message();
  LOG_IF(WARNING, written.kept_earlier_result)
      << "the summary is in " << written.path << ", because " << setup_.job.output_dir()
      << " has the result of an earlier run";
  const Status final_status = setup::FinalStatus(status, written.status);
  const std::string summary = make_summary(final_status);
  LOG(INFO) << summary;
  if (progress_fd_ >= 0 && !WriteLine(progress_fd_, summary, LineValue::kLasting))
    LOG(WARNING) << "cannot report the end to the process that started this one";
  if (shard_ != 0) return final_status;
  const std::string table = setup::SummaryTable(summary);
  LOG(INFO) << "\n" << table;
  if (progress_fd_ < 0 && !table.empty()) StderrLine().Print(table);
  return final_status;
}

}  // namespace tern::server
