// What the job's evaluations have shown so far: which was the best (evaluation.keep_best), and
// whether the job stops early (train.stop_when). Every worker keeps a record. At each evaluation
// the workers send each other their records with their figures, and all go on with the one that
// knows the most; so a worker that joined, or went back, decides as the others do. Threads: the
// compute thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/job.pb.h"
#include "proto/wire.pb.h"

namespace tern::client {

class EvaluationRecord {
 public:
  explicit EvaluationRecord(const pb::Job& job);

  // Whether the job uses the record. If not, nothing below has an effect.
  bool is_used() const { return is_used_; }
  pb::Evaluations Get() const;

  // Takes the best informed of the workers' records, and adds the evaluation `total` (the sums over
  // all workers) after `step` steps to it, unless it has that evaluation. `by_rank`: the figures of
  // the workers. REQUIRES total.test_samples() > 0.
  void Add(const std::vector<pb::Figures>& by_rank, const pb::Figures& total, uint64_t step);
  // Whether the evaluation after `step` steps is the best so far. One whose loss is not finite
  // never is.
  bool IsBest(uint64_t step) const { return is_used_ && Get().best_step() == step && step != 0; }
  // Whether the job stops, by this job's limits.
  bool StopsJob() const;
  // The last step of the job that stops; 0: not set yet. It stays what it was set to first.
  uint64_t last_step() const { return Get().last_step(); }
  void SetLastStep(uint64_t step);
  // A job that had stopped then goes on to its next evaluation, which decides again.
  void ForgetLastStep();

  // The record as numbers of 0 to 65535, for States and checkpoints, which read and write it.
  std::span<float> floats() { return floats_; }

 private:
  void Set(const pb::Evaluations& record);

  const bool is_used_;
  const pb::StopWhen limits_;
  std::vector<float> floats_;
};

}  // namespace tern::client
