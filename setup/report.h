// The results of a job for people and scripts: a line of progress, the table at the end, and one
// JSON line with the same data. They are made from the counters that workers send with heartbeats
// and Bye. Shard 0 writes the JSON to its --progress_fd, where `tern run` reads it.
//
// Keys of both JSON lines: job, parameters, workers (of the job), present (of these: connected or
// finished), lost (the ranks of the others), servers; rounds (steps of the job done so far, over
// all its runs), steps (of the whole job; 0: unknown), from_step (the step of the checkpoint
// that this run continued from; 0: none), beginning (changes whenever all daemons have
// returned to or continued from a checkpoint). The other keys cover only the work of the current
// process of each worker: samples, samples_per_s, loss; train_s, compute_s, decode_s,
// communication_s (waiting for sums inside training rounds; these three and the data pipeline add
// up to train_s), encode_s (parallel to the computing): means over the workers present;
// communication_share (of train_s); up_bytes and down_bytes (frames of training rounds, summed over
// the workers), all_up_bytes, all_down_bytes (all frames), up_bytes_per_step, down_bytes_per_step
// (of one worker), up_ratio, down_ratio, refusals; and those of step_figures.h: t_cop_s, t_com_s,
// exchange_busy_s, step_s, step_s_equation_2, step_s_bounded, gradients, exchanges, local_steps,
// late, dropped, and without rounds staleness (pushes by their staleness) and mean_staleness.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/wire.pb.h"
#include "setup/job_position.h"
#include "setup/setup.h"

namespace tern::setup {

// Bytes of the frames of training rounds (scalers, pushes, sums), and of all frames.
struct WorkerTraffic {
  uint64_t up = 0, down = 0;  // up: sent by the worker; down: received by it
  uint64_t all_up = 0, all_down = 0;
};
// The traffic of one worker.
WorkerTraffic TrafficOf(const pb::Counters& counters);

// How many times as many bytes an exchange in fp32 would need: 4 * parameters * rounds / bytes; 0
// if bytes is 0. `rounds` and `bytes` are of one worker, or sums over the same workers.
double RatioToFp32(uint64_t parameters, uint64_t rounds, uint64_t bytes);

// Returns one JSON object, without a line end: {"event": "progress", "rounds": ..., ...}.
std::string ProgressJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
                         const JobPosition& position);
// Returns {"event": "ended", "code": 0, "sentence": "", ..., "replicas_agree": true}. Has accuracy,
// test_loss, test_samples and parameters_hash only if the present workers have done the job's last
// evaluation.
std::string SummaryJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
                        const JobPosition& position, const Status& status);

// The data that `tern run` reads from a line of ProgressJson or SummaryJson.
struct ProgressUpdate {
  bool ended = false;
  int code = 0;          // the exit code, from a SummaryJson
  std::string sentence;  // the reason of the end, from a SummaryJson
  uint64_t rounds = 0, from_step = 0, samples = 0;
  std::string beginning;
  uint32_t workers = 0, present = 0;
};
// Nullopt if the line is neither.
std::optional<ProgressUpdate> ParseProgressUpdate(const std::string& json_line);

// How `tern run` ended; these values replace shard 0's own in summary.json.
struct RunEnd {
  int code = 0;
  std::string sentence;  // the root cause
  uint32_t restarts = 0;
  double wall_s = 0;
};
// The SummaryJson of a whole `tern run`. `newest`: the last ProgressJson or SummaryJson that shard
// 0 wrote; empty if there is none.
std::string RunSummaryJson(const std::string& newest, const RunEnd& end);

// Returns the table that is printed at the end, from a SummaryJson, ProgressJson or RunSummaryJson.
// Empty if the job failed before its first step.
std::string SummaryTable(const std::string& summary_json);
// Returns a progress line for people: "step 812/3000  loss 0.3121  ...". Speed, communication share
// and time left cover the interval since `previous_json`, an earlier ProgressJson, or since the
// start if it is empty.
std::string ProgressLine(const std::string& progress_json, const std::string& previous_json = "");

// The counters of one daemon as a JSON line.
std::string CountersJson(const pb::Counters& counters);

}  // namespace tern::setup
