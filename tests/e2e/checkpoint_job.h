// Jobs that write a checkpoint every ten steps, for tests that kill them and start them again.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {

inline constexpr uint64_t kSteps = 60;

inline JobOptions OptionsFor(const std::string& yaml = "", uint64_t steps = kSteps) {
  JobOptions options;
  options.steps = steps;
  options.yaml = yaml + "checkpoints: {every_steps: 10}\n";
  return options;
}

inline std::string FolderOf(const TestJob& job, const std::string& owner) {
  return job.output_dir() + "/checkpoints/" + owner;
}

inline std::string CheckpointFile(const TestJob& job, const std::string& owner, uint64_t step,
                                  const std::string& extension) {
  return Cat(FolderOf(job, owner), "/step.", step, extension);
}

// The step of the newest complete checkpoint of a process, or 0 if it has none.
inline uint64_t NewestStepOf(const TestJob& job, const std::string& owner) {
  uint64_t newest_step = 0;
  std::error_code ignored_error;
  for (const auto& entry :
       std::filesystem::directory_iterator(FolderOf(job, owner), ignored_error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step.") && name.ends_with(".json"))
      newest_step = std::max<uint64_t>(newest_step, std::stoull(name.substr(5)));
  }
  return newest_step;
}

inline void KillAll(TestJob& job, uint32_t servers, uint32_t workers) {
  for (uint32_t rank = 0; rank < workers; ++rank) job.worker(rank).Signal(SIGKILL);
  for (uint32_t shard = 0; shard < servers; ++shard) job.server(shard).Signal(SIGKILL);
  for (uint32_t rank = 0; rank < workers; ++rank) job.worker(rank).Wait();
  for (uint32_t shard = 0; shard < servers; ++shard) job.server(shard).Wait();
}

// Starts a job, and kills it when all workers have a checkpoint of `step` or later.
inline void RunAndKillAt(TestJob& job, const JobOptions& options, uint64_t step,
                         const std::vector<std::string>& arguments = {}) {
  job.StartAll(arguments);
  for (uint32_t rank = 0; rank < options.workers; ++rank)
    ASSERT_TRUE(WaitUntil([&] { return NewestStepOf(job, Cat("worker.", rank)) >= step; }));
  KillAll(job, options.servers, options.workers);
}

inline std::string UndisturbedWeights(const JobOptions& options,
                                      const std::vector<std::string>& arguments = {}) {
  TestJob job(options);
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  return job.Weights();
}

inline void ExpectResumes(TestJob& job, const JobOptions& options, const std::string& weights,
                          const std::vector<std::string>& arguments = {}) {
  job.StartAll(arguments);
  job.ExpectAllEnd(0);
  EXPECT_TRUE(job.Weights() == weights);
  for (uint32_t rank = 0; rank < options.workers; ++rank)
    EXPECT_NE(job.Log("worker", rank).find("goes on from the checkpoint"), std::string::npos);
  // Steps count from the beginning of the job. Shard 0's log says from which step the job went on.
  const nlohmann::json summary = job.Output("server.0.json");
  EXPECT_EQ(summary["rounds"], options.steps);
  const uint64_t from_step = summary["from_step"];
  EXPECT_GE(from_step, 10u);
  EXPECT_NE(job.Log("server", 0).find(Cat("all go on from the checkpoint of step ", from_step)),
            std::string::npos);
}

// The bytes of the files of all complete checkpoints, by path. A start removes what a kill has left
// of an incomplete one.
inline std::map<std::string, std::string> CheckpointFilesOf(const TestJob& job) {
  std::map<std::string, std::string> bytes_by_path;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(job.output_dir() + "/checkpoints")) {
    std::filesystem::path manifest = entry.path();
    manifest.replace_extension(".json");
    const bool is_complete = std::filesystem::exists(manifest);
    if (entry.is_regular_file() && is_complete)
      bytes_by_path[entry.path()] = ReadFile(entry.path());
  }
  return bytes_by_path;
}

inline void ExpectInAllLogs(const TestJob& job, const JobOptions& options,
                            const std::string& text) {
  for (uint32_t rank = 0; rank < options.workers; ++rank)
    EXPECT_NE(job.Log("worker", rank).find(text), std::string::npos) << text;
  EXPECT_NE(job.Log("server", 0).find(text), std::string::npos) << text;
}

// Command-line arguments for `settings`, each KEY=VALUE.
inline std::vector<std::string> SetArguments(const std::vector<std::string>& settings) {
  std::vector<std::string> arguments;
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  return arguments;
}

}  // namespace tern::e2e
