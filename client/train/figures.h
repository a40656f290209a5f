// Compares and evaluates the workers' replicas. Figures are a worker's metrics. At some steps each
// worker sends an entry of figures, and the servers answer with the entries of all workers. First
// come hashes of W (the common weights) and losses (kCompare). If an evaluation is due, scores on
// the test set follow (kEvaluate); the test set is divided among the workers whose entries the
// first answer has. At the end of the job the workers tell each other who has written the final
// weights (kWriteFirst, kWriteElsewhere). Threads: the compute thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/exchange/port.h"
#include "client/train/compute.h"
#include "client/train/confusion.h"
#include "client/train/evaluation_record.h"
#include "client/train/gradient.h"
#include "client/train/replica.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

class FiguresExchange {
 public:
  // The arguments outlive this object.
  FiguresExchange(const setup::Setup& setup, uint32_t rank, Compute& compute, Replica& replica,
                  Gradient& gradient)
      : setup_(setup),
        rank_(rank),
        compute_(compute),
        replica_(replica),
        gradient_(gradient),
        computes_(setup.job.train().compute() == pb::Train::net),
        record_(setup.job) {}

  // Whether workers exchange figures after `steps` steps, and whether an evaluation is due then.
  bool IsDue(uint64_t steps) const;
  bool EvaluationIsDue(uint64_t steps) const;

  // Returns this worker's entry for kCompare.
  Result<pb::Figures> MakeComparisonFigures();
  // Evaluates this worker's part of the test set and returns the entry for kEvaluate. REQUIRES the
  // answer to kCompare. `is_last`: whether this is the job's last evaluation, which adds the
  // confusion matrix if the job asks for it. kBadData if more test images are damaged than the job
  // allows; in the last evaluation, evaluation_status() then has the error and the entry says so,
  // because the weights are still to be written.
  Result<pb::Figures> Evaluate(bool is_last);
  // kBadData if this worker's part of the newest evaluation has failed, or if nobody's part had an
  // image that could be decoded. That evaluation has no scores then, and is not in the record.
  const Status& evaluation_status() const { return evaluation_status_; }
  // Returns the entry for kWriteFirst or kWriteElsewhere. `path`: the final weights that this
  // worker has written, empty if it has written none. `error`: why it could not write the results;
  // ok if it could, or has not tried.
  static pb::Figures MakeWrittenFigures(const std::string& path, const Status& error);
  // Receives the servers' answer, the entries of all workers, for W after `steps` steps. kMismatch,
  // with both hashes, if two workers' W differ in a job with rounds.
  Status OnAnswer(const Answer& answer, uint64_t steps);
  // Whether this worker has the lowest rank of the workers in the newest comparison.
  bool HasLowestRank() const { return !present_ranks_.empty() && present_ranks_.front() == rank_; }
  // Whether some worker has written the final weights, as the newest answer says.
  bool weights_are_written() const { return newest_evaluation_.has_weights_path(); }
  // The newest evaluation: sums over all workers; and who has written the final weights.
  const pb::Figures& newest_evaluation() const { return newest_evaluation_; }
  // The sums over all workers in the newest comparison.
  const pb::Figures& compared_sums() const { return compared_sums_; }
  // What the evaluations so far have shown.
  EvaluationRecord& record() { return record_; }
  const EvaluationRecord& record() const { return record_; }
  // Writes the names of the classes, if there are any, and the confusion matrix of the last
  // evaluation, if the job asks for it.
  Status WriteClasses() const;

 private:
  // Averages the batch-norm statistics of the compared workers: means, and second moments
  // (docs/ALGORITHMS.md, section 1).
  Status AverageStatistics(const std::vector<pb::Figures>& by_rank);
  Status OnCompared(const std::vector<pb::Figures>& by_rank, uint64_t steps);
  // `is_whole`: whether all workers of the newest comparison have evaluated their parts.
  void OnEvaluated(const std::vector<pb::Figures>& by_rank, bool is_whole, uint64_t steps);
  // `has_failed`: whether a worker could not evaluate its part. `total`: the sums of the others'.
  void OnEvaluatedWithoutScores(bool has_failed, pb::Figures total);
  void OnWritten(const std::vector<pb::Figures>& by_rank);

  const setup::Setup& setup_;
  const uint32_t rank_;
  Compute& compute_;
  Replica& replica_;
  Gradient& gradient_;
  const bool computes_;                  // by the job's network, so that each evaluation has scores
  std::vector<uint32_t> present_ranks_;  // the ranks in the newest comparison, ascending
  pb::Figures compared_sums_;            // the losses and samples of present_ranks_, added up
  pb::Figures newest_evaluation_;
  Status evaluation_status_;
  EvaluationRecord record_;
  Confusion confusion_;  // over all workers, at the last evaluation
};

}  // namespace tern::client
