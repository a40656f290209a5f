// Tracks how many steps of a job are done, over all processes and resumes.
//
// With rounds, these are the steps of the worker with the most; without, the mean over the workers,
// of which each counts its own, and at most the job's length.
//
// The position does not decrease if a worker is lost, returns, or counts from 0 again. It decreases
// if the whole job returns to a checkpoint, as soon as training has continued from there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/wire.pb.h"

namespace tern::setup {

// What shard 0 knows about a worker.
struct WorkerStatus {
  uint32_t rank = 0;
  pb::Counters counters;  // on shard 0: of all processes of its rank (Roster::CountersOfAll)
  pb::Figures figures;  // the last evaluation, over all workers; parameters_hash is of this worker
  bool is_present =
      true;  // the worker takes part or has finished; false: it is lost or not connected yet
  bool is_joining = false;  // the worker has not yet received the state from which it continues
  uint32_t pid = 0;         // of its process, on its host; 0: unknown
};

class JobPosition {
 public:
  explicit JobPosition(bool has_rounds = true) : has_rounds_(has_rounds) {}

  // Updates the position from the newest counters. `steps`: the job's length; 0: not known yet.
  // `beginning`: a number that changes whenever the whole job returns to, or starts from, a
  // checkpoint.
  void Update(uint64_t steps, uint64_t beginning, const std::vector<WorkerStatus>& workers);

  uint64_t steps() const { return steps_; }  // the job's length; 0: not known yet
  uint64_t steps_done() const { return steps_done_; }
  // The step of the checkpoint from which the job last continued; 0: none.
  uint64_t resumed_from() const { return resumed_from_; }
  uint64_t beginning() const { return beginning_; }

 private:
  // The job's steps by those of the workers; 0 until all workers that are present have reported.
  uint64_t StepsOfJob() const;

  const bool has_rounds_;
  uint64_t steps_ = 0, beginning_ = 0, steps_done_ = 0, resumed_from_ = 0;
  // By rank: the most steps that a worker has reported since beginning_ changed; without a value
  // until its first report, of a worker that is present.
  std::map<uint32_t, std::optional<uint64_t>> worker_steps_;
};

// "step 1200 of 5000" or, while the job's length `steps` is not known (0), "step 1200".
std::string StepText(uint64_t step, uint64_t steps);
// "step 1200 of 5000, 4 of 4 workers": what a service manager shows of the job.
std::string StatusText(const JobPosition& position, const std::vector<WorkerStatus>& workers);

}  // namespace tern::setup
