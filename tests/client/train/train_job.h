// A small training job, for tests that need its setup (network, parameter table, exchange plan) but
// run no processes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "setup/setup.h"

namespace tern::client {

inline constexpr char kTwoDenseLayers[] = R"(
      - {name: hidden, dense: {outputs: 40}}
      - {name: rectified, relu: {}}
      - {name: scores, dense: {outputs: 3}}
)";

// Makes the setup of a job with two workers, whose network has these layers and classifies 4 x 4
// images into 3 classes. Each override is "key=value", as after the program option --set. Returns
// null, and fails the test, if the job is invalid.
inline std::unique_ptr<setup::Setup> SmallJob(const std::vector<std::string>& overrides = {},
                                              const std::string& layers = kTwoDenseLayers) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                     ("tern_job_" + std::to_string(std::rand()) + ".yaml");
  std::ofstream(path) << R"(
servers: [{address: "127.0.0.1:7500"}]
workers: {count: 2}
data: {dir: nowhere}
train: {batch_total: 4, steps: 10}
model:
  net:
    input: {channels: 1, height: 4, width: 4}
    classes: 3
    layers:)" << layers
                      << "      - {name: loss, softmax_loss: {}}\n";
  auto setup = setup::MakeSetup(path.string(), overrides);
  std::filesystem::remove(path);
  EXPECT_TRUE(setup.ok()) << setup.status().message();
  return setup.ok() ? std::move(*setup) : nullptr;
}

// Returns times[t] for each element of tensor t of the job.
inline std::vector<double> OfElements(const setup::Setup& job, const std::vector<double>& times) {
  std::vector<double> of_element(job.table.total);
  for (size_t t = 0; t < times.size(); ++t) {
    const models::Parameter& parameter = job.table.parameters[t];
    std::fill_n(of_element.begin() + static_cast<ptrdiff_t>(parameter.offset), parameter.count,
                times[t]);
  }
  return of_element;
}

}  // namespace tern::client
