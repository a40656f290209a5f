// A small training job in a temporary file, for the tests of setup.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "setup/setup.h"

namespace tern::setup {

// Writes a job file: two workers, one server, LeNet (431,080 parameters). Nobody reads the job's
// data set. The destructor deletes the file.
class SmallJobFile {
 public:
  SmallJobFile() : path_(testing::TempDir() + "tern_setup_" + std::to_string(getpid()) + ".yaml") {
    std::ofstream(path_)
        << "name: small\nservers: [{address: '127.0.0.1:7500'}]\nworkers: {count: 2}\n"
           "model: {name: lenet}\ndata: {dir: /nowhere}\ntrain: {batch_total: 64, steps: 100}\n";
  }
  ~SmallJobFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

inline std::unique_ptr<Setup> SmallSetup(const std::vector<std::string>& overrides = {}) {
  const SmallJobFile file;
  auto setup = MakeSetup(file.path(), overrides);
  EXPECT_TRUE(setup.ok()) << setup.status().message();
  return setup.ok() ? std::move(*setup) : nullptr;
}

}  // namespace tern::setup
