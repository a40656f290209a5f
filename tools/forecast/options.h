// The command line of `tern forecast`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "setup/arguments.h"
#include "tools/forecast/network.h"

namespace tern::tools {

struct ForecastOptions {
  std::string job;  // The path of the job file.
  std::vector<std::string> overrides;
  std::vector<double> link_mbit;  // Rates of the servers' links, in Mbit/s.
  // The network; its server_mbit is replaced by each rate of link_mbit. A negative worker_mbit
  // means that the workers' links have the same rate as the servers' links.
  Network network = {.server_mbit = 0, .worker_mbit = -1, .ack_bytes_per_byte = kAckBytesPerByte};
  // Forward and backward of a step of a client's job, whose program Tern does not have.
  double compute_s = 0;
  std::vector<uint32_t> workers;
  std::vector<std::string> codecs;      // Empty: fp32 and the codec of the job.
  std::vector<std::string> algorithms;  // Empty: the algorithm of the job.
  // Paths of files; empty: no file. The profile is read from `profile_path` instead of measured. It
  // is written to `save_profile_path`, and the forecasts to `csv_path`.
  std::string profile_path, save_profile_path, csv_path;
  // True: print the performance model of the TernGrad paper instead of a forecast.
  bool wants_paper_model = false;
};

// Checks the values of the command's arguments. Returns kUsage for an invalid one; the message says
// what was seen and what is allowed.
Result<ForecastOptions> ParseForecastOptions(const setup::Arguments& arguments);

}  // namespace tern::tools
