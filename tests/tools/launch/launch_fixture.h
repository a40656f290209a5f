// Real `tern launch` with real programs, in a folder of the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {

using Words = std::vector<std::string>;

class LaunchTest : public testing::Test {
 protected:
  LaunchTest() : folder_(testing::TempDir() + "tern_launch_XXXXXX") {
    if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_;
    Write("client.yaml", JobText("client", ""));
  }
  ~LaunchTest() override {
    programs_.clear();
    std::filesystem::remove_all(folder_);
  }

  static std::string JobText(const std::string& compute, const std::string& more_faults) {
    return Cat(
        "name: client\noutput_dir: out\nservers: [{address: \"127.0.0.1:1\"}]\n"
        "workers: {count: 2}\ntrain: {compute: ",
        compute,
        "}\nexchange: {codec: fp32}\n"
        "faults: {dead_after_s: 1, suspect_after_s: 0.6, heartbeat_ms: 100",
        more_faults, "}\n");
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string Read(const std::string& name) const { return ReadFile(folder_ + "/" + name); }

  // Starts tern with these words in the test's folder. `environment`: entries KEY=VALUE.
  TestProgram& StartTern(const Words& words, const Words& environment = {}) {
    tools::ProcessSpec spec;
    spec.name = "tern";
    spec.program = "/usr/bin/env";
    spec.arguments = {"-C", folder_, "-u", "TERN_JOB", "-u", "OMP_NUM_THREADS"};
    spec.arguments.insert(spec.arguments.end(), environment.begin(), environment.end());
    spec.arguments.push_back(TestJob::BinaryPath("tern"));
    spec.arguments.insert(spec.arguments.end(), words.begin(), words.end());
    spec.stdout_path = Cat(folder_, "/tern.", programs_.size(), ".out");
    spec.stderr_path = Cat(folder_, "/tern.", programs_.size(), ".err");
    programs_.push_back(std::make_unique<TestProgram>(spec));
    return *programs_.back();
  }
  // Launches a script of the shell with client.yaml.
  TestProgram& Launch(const std::string& script, const Words& flags = {},
                      const Words& environment = {}) {
    Words words = {"launch", "--job", "client.yaml", "--free_ports"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "/bin/sh", "-c", script});
    return StartTern(words, environment);
  }
  // Whether the process has ended, if perhaps nobody has reaped it yet.
  static bool HasEnded(pid_t pid) {
    const std::string stat = ReadFile(Cat("/proc/", pid, "/stat"));
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  }
  // The number behind the last `marker` in the output.
  static pid_t NumberBehind(const TestProgram& tern, const std::string& marker) {
    const std::string text = tern.out();
    const size_t position = text.rfind(marker);
    return position == std::string::npos ? 0 : atoi(text.c_str() + position + marker.size());
  }

  std::string folder_;
  std::vector<std::unique_ptr<TestProgram>> programs_;
};

}  // namespace tern::e2e
