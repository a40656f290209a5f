// Draws a learning curve.
#include <algorithm>
#include <cmath>
#include <functional>

#include "client/train/curve.h"
#include "client/train/plot.h"
#include "common/base/text.h"

namespace tern::client {
namespace {

using Value = std::function<std::optional<double>(const CurveRow& row)>;

double LargestOf(const std::vector<CurveRow>& rows, const std::vector<Value>& values) {
  double largest = 0;
  for (const CurveRow& row : rows) {
    for (const Value& value : values) {
      const std::optional<double> number = value(row);
      if (number.has_value() && std::isfinite(*number)) largest = std::max(largest, *number);
    }
  }
  return largest;
}

}  // namespace

std::string CurveSvg(const std::string& title, const std::vector<CurveRow>& rows) {
  struct Series {
    const char *name, *color;
    bool is_loss;
    Value value;
  };
  const Series series[] = {
      {"training loss", "#1f77b4", true, [](const CurveRow& row) { return row.train_loss; }},
      {"test loss", "#d95f02", true, [](const CurveRow& row) { return row.test_loss; }},
      {"test accuracy", "#1b7837", false, [](const CurveRow& row) { return row.accuracy; }}};
  const Axis steps =
      Axis::UpTo(rows.empty() ? 1 : std::max(1.0, static_cast<double>(rows.back().step)));
  const Axis losses = Axis::UpTo(LargestOf(rows, {series[0].value, series[1].value}));
  const Axis accuracies;
  Plot plot(title);
  for (const double tick : steps.Ticks())
    plot.AddBottomLabel(steps.ShareOf(tick), FormatWith("%.10g", tick));
  for (const double tick : losses.Ticks())
    plot.AddLeftLabel(losses.ShareOf(tick), FormatWith("%.6g", tick));
  for (const double tick : accuracies.Ticks())
    plot.AddRightLabel(accuracies.ShareOf(tick), FormatWith("%.0f %%", 100 * tick));
  plot.AddAxes("steps", "loss", "accuracy");
  for (const Series& line : series) {
    const Axis& axis = line.is_loss ? losses : accuracies;
    std::vector<std::pair<double, double>> points;
    for (const CurveRow& row : rows) {
      if (const std::optional<double> number = line.value(row))
        points.emplace_back(steps.ShareOf(static_cast<double>(row.step)), axis.ShareOf(*number));
    }
    plot.AddLine(line.name, line.color, points);
  }
  return plot.Svg();
}

}  // namespace tern::client
