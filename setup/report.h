// The results of a job for people and scripts: a line of progress, the table at the end, and one
// JSON line with the same data. They are made from the counters that workers send with heartbeats
// and Bye. Shard 0 writes the JSON to its --progress_fd, where `tern run` reads it.
//
// Both JSON lines have these keys about the job:
//
//   job, parameters, workers, servers  the job's name; the numbers of parameters, workers, servers
//   present, lost     how many workers are connected or have finished; the ranks of the others
//   processes         by rank {pid, step}: the worker's process, and the steps of the job that its
//                     weights include; null for a worker that is lost or has not trained yet
//   rounds, steps     the steps done so far, resumes included (JobPosition); the job's length, 0:
//                     not known yet
//   from_step         the step of the checkpoint from which the job last continued; 0: none
//   beginning         changes whenever all daemons return to, or continue from, a checkpoint
//
// and these about the work of the processes of each worker that shard 0 knows of, without what a
// lost process has done since its last report:
//
//   samples, samples_per_s, loss      the loss is missing until a worker has computed one
//   train_s, compute_s, decode_s, data_s, communication_s, encode_s, checkpoint_s   means over the
//                     workers present; data_s and communication_s are the times of waiting for
//                     samples and for sums in training rounds; encoding is parallel to computing;
//                     writing checkpoints is no part of train_s
//   communication_share               communication_s / train_s
//   up_bytes, down_bytes              frames of training rounds, summed over the workers
//   all_up_bytes, all_down_bytes      all frames
//   up_bytes_per_step, down_bytes_per_step    means over the workers
//   up_ratio, down_ratio              RatioToFp32 of the bytes
//   refusals          received messages that were malformed
//   evaluated, to_evaluate            test samples of the newest evaluation: done, and all
//   overlaps_exchanges, has_local_steps    whether each step is computed while the gradient of the
//                     step before is exchanged; whether workers exchange only after several steps
//   failed_checkpoints                checkpoints that workers and servers could not write
//   t_cop_s, t_com_s, exchange_busy_s, step_s, step_s_equation_2, step_s_bounded, gradients,
//   exchanges, local_steps, late, dropped     see step_figures.h
//   staleness         without rounds: how many pushes have staleness 0, 1, ...
//   mean_staleness    without rounds: the mean staleness of the pushes
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/wire.pb.h"
#include "setup/job_position.h"
#include "setup/setup.h"
#include "setup/totals.h"

namespace tern::setup {

// Returns one JSON object, without a line end: {"event": "progress", "rounds": ..., ...}.
// `failed_shard_checkpoints`: how many checkpoints the servers could not write.
std::string ProgressJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
                         const JobPosition& position, uint64_t failed_shard_checkpoints = 0);
// Returns {"event": "ended", "code": 0, "sentence": "", ..., "replicas_agree": true}. Has accuracy,
// test_loss, test_samples and parameters_hash only if the present workers have done the job's last
// evaluation. Has advice, a list of sentences, if the figures show what would make the job faster
// (advice.h). Has weights_path, weights_rank and weights_error only if the worker with the lowest
// rank could not write the final weights, and worker weights_rank wrote them to weights_path.
std::string SummaryJson(const Setup& setup, const std::vector<WorkerStatus>& workers,
                        const JobPosition& position, const Status& status,
                        uint64_t failed_shard_checkpoints = 0);

// The data that `tern run` reads from a line of ProgressJson or SummaryJson.
struct ProgressUpdate {
  bool has_ended = false;
  int code = 0;          // the exit code, from a SummaryJson
  std::string sentence;  // the reason of the end, from a SummaryJson
  uint64_t rounds = 0, steps = 0, from_step = 0, samples = 0, failed_checkpoints = 0;
  std::string beginning;
  uint32_t num_workers = 0;  // of the job
  uint32_t num_present = 0;  // how many of them are connected or have finished
  struct WorkerProcess {
    uint64_t pid = 0, step = 0;  // pid 0: the worker is lost or has not trained yet
  };
  std::vector<WorkerProcess> processes;  // by rank
};
// Returns nullopt if the line is neither a ProgressJson nor a SummaryJson.
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
// start if it is empty. Leaves out the least important parts until the line has at most
// `max_columns` characters or only the most important ones are left.
std::string ProgressLine(const std::string& progress_json, const std::string& previous_json = "",
                         size_t max_columns = 1000);

// The counters of one daemon as a JSON line.
std::string CountersJson(const pb::Counters& counters);

}  // namespace tern::setup
