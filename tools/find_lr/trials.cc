#include "tools/find_lr/trials.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/train/plot.h"
#include "common/base/text.h"

namespace tern::tools {
namespace {

double LossOrInfinity(const Trial& trial) {
  return trial.loss.value_or(std::numeric_limits<double>::infinity());
}

bool HasLowerRate(const Trial& a, const Trial& b) { return a.rate < b.rate; }

}  // namespace

std::optional<double> TrialLoss(uint64_t steps, const std::vector<client::CurveRow>& rows) {
  double sum = 0;
  size_t count = 0;
  for (const client::CurveRow& row : rows) {
    if (!row.train_loss.has_value()) continue;
    if (!std::isfinite(*row.train_loss)) return std::nullopt;
    if (4 * row.step <= 3 * steps) continue;
    sum += *row.train_loss;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::optional<double> NextTrialRate(double range_test_rate, const std::vector<Trial>& trials) {
  if (trials.empty()) return range_test_rate;
  if (trials.size() == 1) return range_test_rate / kTrialFactor;
  if (trials.size() == 2) return range_test_rate * kTrialFactor;
  if (trials.size() >= kMaxTrials) return std::nullopt;
  const auto [lowest, highest] = std::minmax_element(trials.begin(), trials.end(), &HasLowerRate);
  const Trial* best = BestTrial(trials);
  if (best == nullptr || best == &*lowest) return lowest->rate / kTrialFactor;
  if (best == &*highest) return highest->rate * kTrialFactor;
  return std::nullopt;
}

const Trial* BestTrial(const std::vector<Trial>& trials) {
  const auto best = std::min_element(
      trials.begin(), trials.end(),
      [](const Trial& a, const Trial& b) { return LossOrInfinity(a) < LossOrInfinity(b); });
  return best == trials.end() || !best->loss.has_value() ? nullptr : &*best;
}

std::vector<TableRow> TrialTable(std::vector<Trial> trials) {
  std::sort(trials.begin(), trials.end(), &HasLowerRate);
  std::vector<TableRow> rows = {{"trial's learning rate", "loss"}};
  for (const Trial& trial : trials) {
    rows.push_back({FormatWith("%.2g", trial.rate),
                    trial.loss.has_value() ? FormatWith("%.4f", *trial.loss) : "diverged"});
  }
  return rows;
}

}  // namespace tern::tools
