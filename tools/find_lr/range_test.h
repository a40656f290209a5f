// The learning-rate range test (L. N. Smith 2015, "Cyclical learning rates for training neural
// networks"): the network is trained for some steps with a rate that grows exponentially, and the
// loss of each step shows which rates are too low, good and too high. No file and no process here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/train/curve.h"
#include "common/base/status.h"

namespace tern::tools {

// The rates of the test. Step s of 1 to `steps` has the rate from * (to / from)^((s - 1) / (steps -
// 1)). REQUIRES 0 < from < to and steps >= 2.
struct RateRange {
  double from = 0, to = 0;
  uint64_t steps = 0;

  // The rate of step `step`, which may lie between two steps.
  double RateOf(double step) const;
};

// A loss that was measured: the mean over the samples of all workers since the loss before.
struct RatedLoss {
  uint64_t step = 0;
  double rate = 0;  // the rate of that step; of a loss over several steps, that of their middle
  double loss = 0;
  // Mean of the losses so far, with exponentially falling weights that add up to 1 (bias
  // correction): the weight of the loss before last is kSmoothing times that of the last.
  double smoothed_loss = 0;
};
inline constexpr double kSmoothing = 0.9;

struct Suggestion {
  double rate = 0;
  double too_high_rate = 0;  // the rate from which the suggestion was taken: see SuggestRate
  bool has_risen = false;    // whether the smoothed loss had risen halfway back there
  // The loss did not rise up to the last rate, so higher rates may be good, too.
  bool may_be_higher = false;
};

// Returns the losses of the curve's rows, each with its rate. The test ends before the first loss
// that is not finite, and with the first whose smoothed loss is more than kTooHigh times the lowest
// so far; later rows are left out.
std::vector<RatedLoss> RateLosses(const RateRange& range,
                                  const std::vector<client::CurveRow>& rows);
inline constexpr double kTooHigh = 4;

// Suggests a learning rate: a quarter of the rate at which the smoothed loss, after its minimum,
// has risen halfway back to the first loss (docs/RESULTS.md says how that was chosen). If the
// losses end before that, the test has diverged or reached its last step, and their last rate
// counts. The first loss is the mean of the first tenth of the losses. kUsage if there are fewer
// than kMinLosses losses, or the smoothed loss never falls by 1 %.
Result<Suggestion> SuggestRate(const RateRange& range, const std::vector<RatedLoss>& losses);
inline constexpr size_t kMinLosses = 20;

// The text of find_lr.csv: a line for each loss, with a header.
std::string RangeTestCsv(const std::vector<RatedLoss>& losses);
// The drawing find_lr.svg: losses and smoothed losses over the rate, whose axis is logarithmic, and
// the suggested rate. REQUIRES losses.
std::string RangeTestSvg(const std::string& title, const RateRange& range,
                         const std::vector<RatedLoss>& losses, double suggested_rate);

}  // namespace tern::tools
