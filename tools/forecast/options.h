// The command line of `tern predict`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tools/forecast/network.h"

namespace tern::tools {

struct PredictOptions {
  std::string job;
  std::vector<std::string> overrides;
  std::vector<double> link_mbit = {1000};
  // All of the network but the rate of the servers' links, which link_mbit gives. A negative
  // worker_mbit stands for the same rate as the servers'.
  Network network = {.server_mbit = 0, .worker_mbit = -1, .acknowledged = kAcknowledged};
  std::vector<uint32_t> workers = {1, 2, 4, 8, 16};
  std::vector<std::string> codecs;      // empty: fp32 and the job's
  std::vector<std::string> algorithms;  // empty: the job's
  std::string profile, save_profile;    // files; empty: none
  std::string csv;
  bool paper = false;  // compares with the OD-SGD paper's figures instead
};

extern const char* const kPredictUsage;
// kUsage, with what was seen and what is allowed.
Result<PredictOptions> ParsePredictOptions(const std::vector<std::string>& args);

}  // namespace tern::tools
