// The trials behind a range test: short trainings with the job's schedule, shrunk to their length,
// which show what the range test cannot: how well the network has learned in the end. Their rates
// are a factor of kTrialFactor apart, around the range test's. No file and no process here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/train/curve.h"
#include "tools/table.h"

namespace tern::tools {

struct Trial {
  double rate = 0;
  std::optional<double> loss;  // see TrialLoss; nullopt: the training diverged
};

// The mean of the training losses behind the first three quarters of a trial's steps. Nullopt if
// there is none, or one is not finite.
std::optional<double> TrialLoss(uint64_t steps, const std::vector<client::CurveRow>& rows);

// The rate of the next trial; nullopt if there is none. The first three are the range test's rate
// and its neighbours; as long as the best of all is the lowest or the highest rate, there is
// another beyond it, up to kMaxTrials trials.
std::optional<double> NextTrialRate(double range_test_rate, const std::vector<Trial>& trials);
inline constexpr double kTrialFactor = 3;
inline constexpr size_t kMaxTrials = 6;

// The trial with the lowest loss; nullptr if all diverged.
const Trial* BestTrial(const std::vector<Trial>& trials);

// The table of the trials, by ascending rate.
std::vector<TableRow> TrialTable(std::vector<Trial> trials);

}  // namespace tern::tools
