#include "tools/find_lr/range_test.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "client/train/plot.h"
#include "common/base/text.h"

namespace tern::tools {
namespace {

constexpr double kLeastFall = 0.01;       // of the smoothed loss, as a share
constexpr double kShareOfRise = 0.5;      // of the way from the minimum back to the first loss
constexpr double kShareOfTooHigh = 0.25;  // the suggestion, as a share of the rate there

// The mean of the first tenth of the losses. Their rates are so low that they hardly change it.
double FirstLoss(const std::vector<RatedLoss>& losses) {
  const auto count = static_cast<std::ptrdiff_t>(losses.size() / 10);
  const double sum = std::accumulate(
      losses.begin(), losses.begin() + count, 0.0,
      [](double sum_so_far, const RatedLoss& loss) { return sum_so_far + loss.loss; });
  return sum / static_cast<double>(count);
}

// The highest loss that the drawing shows: single losses may be far above the smoothed ones.
double HighestSmoothedLoss(const std::vector<RatedLoss>& losses) {
  double highest = 0;
  for (const RatedLoss& loss : losses) highest = std::max(highest, loss.smoothed_loss);
  return highest;
}

// The powers of ten from `from` to `to`.
std::vector<int> PowersOfTen(double from, double to) {
  std::vector<int> powers;
  const int last = static_cast<int>(std::floor(std::log10(to) + 1e-9));
  for (int power = static_cast<int>(std::ceil(std::log10(from) - 1e-9)); power <= last; ++power)
    powers.push_back(power);
  return powers;
}

}  // namespace

double RateRange::RateOf(double step) const {
  return from * std::pow(to / from, (step - 1) / static_cast<double>(steps - 1));
}

std::vector<RatedLoss> RateLosses(const RateRange& range,
                                  const std::vector<client::CurveRow>& rows) {
  std::vector<RatedLoss> losses;
  double weighted_sum = 0, sum_of_weights = 0, lowest = std::numeric_limits<double>::infinity();
  uint64_t previous_step = 0;
  for (const client::CurveRow& row : rows) {
    if (!row.train_loss.has_value()) continue;
    if (!std::isfinite(*row.train_loss)) break;
    const double middle_step = static_cast<double>(previous_step + 1 + row.step) / 2;
    previous_step = row.step;
    weighted_sum = kSmoothing * weighted_sum + (1 - kSmoothing) * *row.train_loss;
    sum_of_weights = kSmoothing * sum_of_weights + (1 - kSmoothing);
    const double smoothed_loss = weighted_sum / sum_of_weights;
    losses.push_back({row.step, range.RateOf(middle_step), *row.train_loss, smoothed_loss});
    if (smoothed_loss > kTooHigh * lowest) break;
    lowest = std::min(lowest, smoothed_loss);
  }
  return losses;
}

Result<Suggestion> SuggestRate(const RateRange& range, const std::vector<RatedLoss>& losses) {
  if (losses.size() < kMinLosses) {
    return Status(Code::kUsage,
                  Cat("the range test has ", losses.size(), " losses, expected at least ",
                      kMinLosses, "; give a lower --from or more --steps"));
  }
  const double first_loss = FirstLoss(losses);
  const auto lowest = std::min_element(
      losses.begin(), losses.end(),
      [](const RatedLoss& a, const RatedLoss& b) { return a.smoothed_loss < b.smoothed_loss; });
  const double fall = first_loss - lowest->smoothed_loss;
  if (!(fall > kLeastFall * first_loss)) {
    return Status(Code::kUsage,
                  Cat("the smoothed loss was ", first_loss, " at first and ", lowest->smoothed_loss,
                      " at its lowest, so no rate is suggested; expected a fall of at least ",
                      100 * kLeastFall, " %; give other --from and --to, or more --steps"));
  }
  const auto too_high = std::find_if(lowest, losses.end(), [&](const RatedLoss& loss) {
    return loss.smoothed_loss > lowest->smoothed_loss + kShareOfRise * fall;
  });
  Suggestion suggestion;
  suggestion.too_high_rate = too_high != losses.end() ? too_high->rate : losses.back().rate;
  suggestion.has_risen = too_high != losses.end();
  suggestion.rate = kShareOfTooHigh * suggestion.too_high_rate;
  suggestion.may_be_higher = !suggestion.has_risen && losses.back().step == range.steps;
  return suggestion;
}

std::string RangeTestCsv(const std::vector<RatedLoss>& losses) {
  std::string csv = "step,learning_rate,training_loss,smoothed_loss\n";
  for (const RatedLoss& loss : losses)
    csv += Cat(loss.step, ",", loss.rate, ",", loss.loss, ",", loss.smoothed_loss, "\n");
  return csv;
}

std::string RangeTestSvg(const std::string& title, const RateRange& range,
                         const std::vector<RatedLoss>& losses, double suggested_rate) {
  const client::Axis loss_axis = client::Axis::UpTo(HighestSmoothedLoss(losses));
  const auto share_of_rate = [&](double rate) {
    return std::log(rate / range.from) / std::log(range.to / range.from);
  };
  client::Plot plot(title);
  for (const int power : PowersOfTen(range.from, range.to)) {
    const double rate = std::pow(10, power);
    plot.AddBottomLabel(share_of_rate(rate), FormatWith("%g", rate));
  }
  for (const double tick : loss_axis.Ticks())
    plot.AddLeftLabel(loss_axis.ShareOf(tick), FormatWith("%.6g", tick));
  plot.AddAxes("learning rate", "training loss");
  std::vector<std::pair<double, double>> points, smoothed_points;
  for (const RatedLoss& loss : losses) {
    const double x = share_of_rate(loss.rate);
    points.emplace_back(x, loss_axis.ShareOf(loss.loss));
    smoothed_points.emplace_back(x, loss_axis.ShareOf(loss.smoothed_loss));
  }
  plot.AddLine("loss of a step", "#b5cfe8", points);
  plot.AddLine("smoothed loss", "#1f77b4", smoothed_points);
  plot.AddMark(share_of_rate(suggested_rate), "#d95f02",
               "suggested: " + FormatWith("%.2g", suggested_rate));
  return plot.Svg();
}

}  // namespace tern::tools
