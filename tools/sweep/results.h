// The results of the runs of `tern sweep`, and their table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/run/process.h"
#include "tools/sweep/grid.h"
#include "tools/table.h"

namespace tern::tools {

struct SweepResult {
  int code = 0;                     // The exit code of the run.
  std::string sentence;             // Why the run failed; empty if it did not.
  std::optional<double> accuracy;   // Of the test set, 0 to 1.
  std::optional<double> test_loss;  // Per image.
  std::optional<double> train_loss;
  double wall_s = 0;  // Seconds from the start to the end of the run.
};

// Reads the summary of the newest `tern run` in the folder: summary.failed.json, which a later
// success removes, or else summary.json. Nullopt if there is none.
std::optional<SweepResult> ReadResult(const std::string& folder);

// The result of a `tern run` in the folder that ended with `exit`: that of ReadResult or, if the
// run could not even write its summary, the exit code and where its output is.
SweepResult ResultOf(const Exit& exit, const std::string& folder);

// One row for each combination of values, best first: by mean accuracy, or, without a test set, by
// mean training loss. Figures of several seeds are "mean +- standard deviation". `results` has one
// element for each of `runs`; failed runs are counted in a column of their own.
std::vector<TableRow> SweepTable(const std::vector<GridKey>& grid,
                                 const std::vector<SweepRun>& runs,
                                 const std::vector<std::optional<SweepResult>>& results);

// One line for each run, with a header (CSV). Values with a comma or a quote are quoted.
std::string SweepCsv(const std::vector<GridKey>& grid, const std::vector<SweepRun>& runs,
                     const std::vector<std::optional<SweepResult>>& results);

}  // namespace tern::tools
