// What a job has done, as people and scripts see it: the progress line, the closing table, and one
// JSON line with the same figures. Made from the counters that workers send with heartbeats and
// Bye. Shard 0 writes the JSON to its --progress_fd, `tern run` reads it there.
//
// Keys of both JSON lines: job, parameters, workers (of the job), present (of them, there or done),
// lost (the ranks of the others), servers; rounds (steps of the job that are done, in whichever
// run), steps (of the whole job, 0 while unknown), from_step (that this run went on from, after a
// checkpoint or a snapshot; 0: the beginning), beginning (another
// text once all have gone back, or on from a checkpoint). All further figures are of the processes
// of this run that were the last of their rank: samples, samples_per_s, loss; train_s, compute_s,
// decode_s, communication_s (waiting for sums inside training rounds; these three and the data
// pipeline add up to train_s), encode_s (beside the computing): means over the workers that are
// present; communication_share (of train_s); up_bytes and down_bytes (frames of training rounds,
// summed over the workers), all_up_bytes, all_down_bytes (all frames), up_bytes_per_step,
// down_bytes_per_step (of one worker), up_ratio, down_ratio, refusals; and step_figures.h's:
// t_cop_s, t_com_s, exchange_busy_s, step_s, step_s_equation_2, step_s_bounded, gradients,
// exchanges, local_steps, late, dropped, and without rounds staleness (pushes by their staleness)
// and mean_staleness.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/setup/job_position.h"
#include "common/setup/setup.h"
#include "proto/wire.pb.h"

namespace tern::setup {

// Bytes of the frames of the training rounds (scalers, pushes, sums), and of all.
struct RoundTraffic {
  uint64_t up = 0, down = 0;  // as a worker sees it: up is what it sent
  uint64_t all_up = 0, all_down = 0;
};
RoundTraffic TrafficOf(const pb::Counters& counters);

// 4 bytes x parameters x rounds over the bytes that went; 0 where nothing went. `rounds` and
// `bytes` of one worker, or both summed over the same workers.
double RatioToFp32(uint64_t parameters, uint64_t rounds, uint64_t bytes);

// One JSON object, one line: {"event": "progress", "rounds": ..., ...}.
std::string ProgressJson(const Setup& setup, const std::vector<WorkerEnd>& workers,
                         const JobPosition& position);
// {"event": "ended", "code": 0, "sentence": "", ..., "replicas_agree": true}; with accuracy,
// test_loss, test_samples and parameters_hash where the workers that are present got as far as the
// job's last evaluation.
std::string SummaryJson(const Setup& setup, const std::vector<WorkerEnd>& workers,
                        const JobPosition& position, const Status& status);

// What `tern run` acts on in such a line. Nothing: it is none.
struct News {
  bool ended = false;
  int code = 0;          // ended only
  std::string sentence;  // ended only
  uint64_t rounds = 0, from_step = 0, samples = 0;
  std::string beginning;
  uint32_t workers = 0, present = 0;
};
std::optional<News> ReadNews(const std::string& json_line);

// How a run of processes ended; goes into summary.json over what shard 0 said.
struct RunEnd {
  int code = 0;
  std::string sentence;  // the root cause
  uint32_t restarts = 0;
  double wall_s = 0;
};
// `newest` is the last line that shard 0 wrote, of either kind, or empty.
std::string RunSummaryJson(const std::string& newest, const RunEnd& end);

// The closing table from a SummaryJson, ProgressJson or RunSummaryJson: what was reached; empty
// where no step was and the job has failed.
std::string SummaryTable(const std::string& summary_json);
// A progress line for people: "step 812/3000  loss 0.3121  ...". Speed, communication share and
// time left are of the interval since `previous`, an earlier ProgressJson; without one, since the
// start.
std::string ProgressLine(const std::string& progress_json, const std::string& previous_json = "");

// The counters of one daemon as a JSON line.
std::string CountersJson(const pb::Counters& counters);

}  // namespace tern::setup
