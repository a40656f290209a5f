// What a shard reports to a `tern run` that is stopped, and does not read.
#include "server/job_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "setup/report.h"
#include "tests/setup/small_job.h"
#include "tools/run/progress_pipe.h"

namespace tern::server {
namespace {

TEST(JobReport, TheEndArrivesAfterMoreProgressThanThePipeHolds) {
  const std::string folder = testing::TempDir() + "tern_job_report";
  const auto setup = setup::SmallSetup({"output_dir=" + folder});
  const tools::ProgressPipe pipe;
  setup::JobPosition position;
  JobReport report(*setup, 0, pipe.writer());
  const size_t length = setup::ProgressJson(*setup, {}, position).size();
  for (size_t i = 0; i < (size_t{2} << 20) / length; ++i)
    report.ShowProgress({}, position, 0, Time{});
  const Status status = report.ShowSummary(Ok(), [&](const Status& final_status) {
    return setup::SummaryJson(*setup, {}, position, final_status);
  });
  EXPECT_TRUE(status.ok()) << status.message();

  tools::ProgressLines lines;
  std::optional<setup::ProgressUpdate> newest;
  lines.Read(pipe.reader(), [&newest](const std::string& line) {
    newest = setup::ParseProgressUpdate(line);
    EXPECT_TRUE(newest.has_value()) << line;
  });
  ASSERT_TRUE(newest.has_value());
  EXPECT_TRUE(newest->has_ended);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tern::server
