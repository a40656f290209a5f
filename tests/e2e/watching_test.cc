// What the daemons of a job say while it runs: their logs every metrics.log_every_s, and what those
// print that a user has started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// 60 steps of at least 50 ms, so at least two lines a second apart.
const std::vector<std::string> kSlowSteps = {"--set", "train.compute=wait",
                                             "--set", "train.compute_wait_ms=50",
                                             "--set", "metrics.log_every_s=1"};
const char* const kFigures =
    "step [0-9]+ of 60, loss [^\n]* samples/s, [^\n]* up and [^\n]* down a step, computing [0-9]+ "
    "%, "
    "waiting for sums [0-9]+ %, waiting for samples [0-9]+ %, decoding [0-9]+ %, encoding in "
    "parallel [0-9]+ %";

std::vector<std::string> Arguments(const TestJob& job, uint32_t rank) {
  std::vector<std::string> arguments = {"--job", job.job_file(), "--rank", std::to_string(rank)};
  arguments.insert(arguments.end(), kSlowSteps.begin(), kSlowSteps.end());
  return arguments;
}

TEST(Watching, DaemonsStartedByHandSayHowTheJobGoesOn) {
  TestJob job({.steps = 60});
  TestProgram& server = job.Start("server", TestJob::BinaryPath("tern_server"), Arguments(job, 0));
  std::vector<TestProgram*> workers;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    workers.push_back(&job.Start("worker." + std::to_string(rank),
                                 TestJob::BinaryPath("tern_worker"), Arguments(job, rank)));
  }
  for (TestProgram* worker : workers) EXPECT_EQ(worker->Wait(), 0) << worker->err();
  EXPECT_EQ(server.Wait(), 0) << server.err();

  EXPECT_THAT(server.err(),
              AllOf(HasSubstr("worker 1 ("), HasSubstr("all 2 workers are here"),
                    ContainsRegex(std::string(kFigures) + ", workers 2 of 2\n"),
                    HasSubstr("\n  servers, workers "),
                    ContainsRegex("test accuracy +[0-9.]+ % \\("), Not(HasSubstr("\x1b"))));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const std::string name = "worker " + std::to_string(rank);
    EXPECT_THAT(workers[rank]->err(), AllOf(HasSubstr(name + " takes part in the job "),
                                            HasSubstr(name + " has finished after step 60\n"),
                                            Not(HasSubstr("samples/s"))));
    EXPECT_THAT(job.Log("worker", rank), ContainsRegex(std::string(kFigures) + "\n"));
  }
  EXPECT_THAT(job.Log("server", 0), ContainsRegex("I[0-9][^\n]*\\] " + std::string(kFigures)));
  EXPECT_THAT(job.Log("server", 0), ContainsRegex("I[0-9][^\n]*\\] worker 1 [^\n]* is here\n"));
}

TEST(Watching, LogsInJsonHaveAnObjectPerLine) {
  TestJob job({.steps = 60});
  std::vector<std::string> arguments = kSlowSteps;
  arguments.insert(arguments.end(), {"--set", "metrics.log_format=json"});
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  std::set<std::string> daemons_with_figures;
  for (const auto& entry : std::filesystem::directory_iterator(job.log_dir())) {
    const std::string file = entry.path().filename();
    if (!file.ends_with(".log")) continue;
    std::istringstream lines(ReadFile(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      const json fields = json::parse(line, nullptr, false);
      ASSERT_TRUE(fields.is_object()) << file << ": " << line;
      for (const char* key : {"time", "level", "role", "rank", "file", "line", "message"})
        ASSERT_TRUE(fields.contains(key)) << line;
      const std::string daemon = fields["role"].get<std::string>() + "." + fields["rank"].dump();
      EXPECT_THAT(file, HasSubstr(daemon + "."));
      if (!fields.contains("samples_per_s")) continue;
      EXPECT_GT(fields["samples_per_s"], 0) << line;
      EXPECT_TRUE(fields["step"].is_number_integer()) << line;
      EXPECT_GT(fields["computing_share"], 0.1) << line;
      daemons_with_figures.insert(daemon);
    }
  }
  EXPECT_THAT(daemons_with_figures, testing::ElementsAre("server.0", "worker.0", "worker.1"));
  EXPECT_THAT(job.server(0).err(), AllOf(Not(HasSubstr("samples/s")), Not(HasSubstr("job  "))))
      << "`tern run` shows the progress of servers that it has started";
}

}  // namespace
}  // namespace tern::e2e
