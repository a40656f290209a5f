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
  // The network without its server_mbit: link_mbit lists the rates to forecast. A negative
  // worker_mbit means that the workers' links have the same rate as the servers' links.
  Network network = {.server_mbit = 0, .worker_mbit = -1, .acknowledged = kAcknowledged};
  std::vector<uint32_t> workers = {1, 2, 4, 8, 16};
  std::vector<std::string> codecs;      // Empty: fp32 and the codec of the job.
  std::vector<std::string> algorithms;  // Empty: the algorithm of the job.
  // Empty: no file. The profile is read from `profile_path`, not measured; the others are written.
  std::string profile_path, save_profile_path, csv;
  bool wants_paper_model =
      false;  // Print the performance model of the TernGrad paper instead of a forecast.
};

extern const char* const kPredictUsage;
// Parses the arguments of the command. kUsage for an invalid one; the message says what was seen
// and what is allowed.
Result<PredictOptions> ParsePredictOptions(const std::vector<std::string>& args);

}  // namespace tern::tools
