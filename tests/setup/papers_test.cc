// Tests of configs/papers/, the jobs of the papers' tables. The comment at the head of each job
// says with which settings it is which row.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "setup/setup.h"

namespace tern::setup {
namespace {

// The settings of each row, in a comment of one line, or of several of which all but the last end
// in a backslash: --set KEY=VALUE, with quotes around what has spaces.
std::vector<std::vector<std::string>> RowsOf(const std::filesystem::path& job_file) {
  std::vector<std::vector<std::string>> rows(1);  // the job itself
  std::ifstream file(job_file);
  bool continues = false;
  for (std::string line; std::getline(file, line) && line.starts_with('#');) {
    static const std::regex kSetting("--set (?:\"([^\"]*)\"|([^\\s\"]+))");
    std::vector<std::string> settings;
    for (std::sregex_iterator match(line.begin(), line.end(), kSetting), end; match != end; ++match)
      settings.push_back((*match)[1].matched ? (*match)[1] : (*match)[2]);
    if (!continues && !settings.empty()) rows.emplace_back();
    rows.back().insert(rows.back().end(), settings.begin(), settings.end());
    continues = line.ends_with('\\');
  }
  return rows;
}

TEST(PaperJobs, AreValidInEveryRow) {
  size_t num_rows = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs/papers")) {
    for (const std::vector<std::string>& settings : RowsOf(entry.path())) {
      const auto setup = MakeSetup(entry.path(), settings);
      EXPECT_TRUE(setup.ok()) << setup.status().message();
      ++num_rows;
    }
  }
  EXPECT_GE(num_rows, 90u);
}

TEST(PaperJobs, HaveTheSettingsOfTheirRows) {
  const auto rows = RowsOf("configs/papers/odsgd_table2.yaml");
  const std::vector<std::string> eight_workers = {
      "workers.count=8", "train.batch_total=1024", "train.schedule.learning_rate=0.2",
      "train.schedule.milestones=[3906, 5859]",
      "train.odsgd.local={name: dcasgd_a, learning_rate_times: 2.5, lambda: 0.95}"};
  EXPECT_NE(std::find(rows.begin(), rows.end(), eight_workers), rows.end());
}

}  // namespace
}  // namespace tern::setup
