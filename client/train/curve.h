// The learning curve of a job: OUTPUT_DIR/curve.csv, and curve.svg, which draws it. A row has the
// loss on the training samples since the row before and, after an evaluation, the scores on the
// test set. The worker with the lowest rank writes the files after every evaluation. A job that
// resumes continues the rows of its folder. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/wire.pb.h"

namespace tern::client {

struct CurveRow {
  uint64_t step = 0;
  // Means over the samples; an accuracy is a fraction of them. Unset: not measured after this step.
  std::optional<double> train_loss = {}, test_loss = {}, accuracy = {}, top5_accuracy = {};
};

class Curve {
 public:
  // `title`: the job's name, for the drawing. `may_lack_loss`: a training loss that is not finite
  // was not said by the programs that compute it, and is no measurement.
  Curve(std::string folder, std::string title, bool may_lack_loss = false)
      : folder_(std::move(folder)), title_(std::move(title)), may_lack_loss_(may_lack_loss) {}

  // Call when training begins after `step` steps: drops later rows, and if this object has none,
  // reads those of the folder. At step 0, all rows are of an earlier job.
  void Begin(uint64_t step);
  // Adds the loss, or the scores, in `figures` (sums over all workers) after `step` steps.
  void AddLoss(uint64_t step, const pb::Figures& figures);
  void AddScores(uint64_t step, const pb::Figures& figures);
  // Writes both files atomically. kCannotWrite if the system refuses.
  Status Write() const;

  const std::vector<CurveRow>& rows() const { return rows_; }

 private:
  CurveRow& RowAt(uint64_t step);

  const std::string folder_, title_;
  const bool may_lack_loss_;
  std::vector<CurveRow> rows_;  // by ascending step
};

// The text of curve.csv. ParseCurve is its inverse; it stops at the first line that is no row.
std::string CurveCsv(const std::vector<CurveRow>& rows);
std::vector<CurveRow> ParseCurve(const std::string& csv);
// The drawing: losses on the left axis, accuracies on the right one, over the steps.
std::string CurveSvg(const std::string& title, const std::vector<CurveRow>& rows);

}  // namespace tern::client
