// What a job has done, as people and scripts see it: the progress line, the closing table, and one JSON line with the
// same figures. Made from the counters that workers send with heartbeats and Bye.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/setup/setup.h"
#include "proto/wire.pb.h"

namespace tern::setup {

struct WorkerEnd {
  uint32_t rank = 0;
  pb::Counters counters;
  pb::Figures figures;  // of the job; every worker has the same but for parameters_hash, which is its own
};

// Bytes of the frames of the training rounds (scalers, pushes, sums), and of all.
struct RoundTraffic {
  uint64_t up = 0, down = 0;              // as a worker sees it: up is what it sent
  uint64_t all_up = 0, all_down = 0;
};
RoundTraffic TrafficOf(const pb::Counters& counters);

// 4 bytes x parameters x rounds over the bytes that went; 0 where nothing went.
double RatioToFp32(uint64_t parameters, uint64_t rounds, uint64_t bytes);

// One JSON object, one line: {"event": "progress", ...}.
std::string ProgressJson(const Setup& setup, const std::vector<WorkerEnd>& workers, uint64_t steps, uint32_t present);
// {"event": "ended", "code": 0, "sentence": "", "rounds": ..., "accuracy": ..., ...}.
std::string SummaryJson(const Setup& setup, const std::vector<WorkerEnd>& workers, const Status& status);
// The closing table from such a JSON line.
std::string SummaryTable(const std::string& summary_json);
// A progress line for people from a ProgressJson: "step 812/3000  loss 0.3121  ...".
std::string ProgressLine(const std::string& progress_json);

// The counters of one daemon as a JSON line.
std::string CountersJson(const pb::Counters& counters);

}  // namespace tern::setup
