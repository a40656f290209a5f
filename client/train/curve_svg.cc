// Draws a learning curve. The drawing is 760 x 420, with a margin for the axes' labels.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "client/train/curve.h"

namespace tern::client {
namespace {

constexpr double kWidth = 760, kHeight = 420, kLeft = 70, kRight = 70, kTop = 50, kBottom = 60;
constexpr size_t kMaxPoints = 1000;  // of a line; of more, some are left out

using Value = std::function<std::optional<double>(const CurveRow& row)>;

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// The text with the characters replaced that XML reserves, and without control characters.
std::string XmlText(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      escaped += c;
    }
  }
  return escaped;
}

// An axis: the values from `low` to `high`, which are multiples of `tick`.
struct Axis {
  double low = 0, high = 1, tick = 0.2;

  // From 0 to at least `largest`, with about five ticks of 1, 2 or 5 times a power of ten.
  static Axis UpTo(double largest) {
    if (!(largest > 0) || !std::isfinite(largest)) return {};
    const double power = std::pow(10, std::floor(std::log10(largest / 5)));
    Axis axis;
    for (const double factor : {1, 2, 5, 10}) {
      axis.tick = factor * power;
      if (largest / axis.tick <= 6) break;
    }
    axis.high = std::ceil(largest / axis.tick - 1e-9) * axis.tick;
    return axis;
  }
  double ShareOf(double value) const { return (value - low) / (high - low); }
  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    for (int i = 0; low + i * tick <= high * (1 + 1e-9); ++i) ticks.push_back(low + i * tick);
    return ticks;
  }
};

double XOf(double share) { return kLeft + share * (kWidth - kLeft - kRight); }
double YOf(double share) { return kHeight - kBottom - share * (kHeight - kTop - kBottom); }

std::string Label(double x, double y, const char* anchor, const std::string& text,
                  const std::string& more = "") {
  return "<text x=\"" + Text("%.1f", x) + "\" y=\"" + Text("%.1f", y) + "\" text-anchor=\"" +
         anchor + "\"" + more + ">" + text + "</text>\n";
}

std::string Line(double x1, double y1, double x2, double y2, const char* color) {
  return "<line x1=\"" + Text("%.1f", x1) + "\" y1=\"" + Text("%.1f", y1) + "\" x2=\"" +
         Text("%.1f", x2) + "\" y2=\"" + Text("%.1f", y2) + "\" stroke=\"" + color + "\"/>\n";
}

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

std::string Polyline(const std::vector<CurveRow>& rows, const Value& value, const Axis& steps,
                     const Axis& axis, const char* color) {
  std::vector<std::string> points;
  for (const CurveRow& row : rows) {
    const std::optional<double> number = value(row);
    if (!number.has_value() || !std::isfinite(*number)) continue;
    points.push_back(Text("%.1f", XOf(steps.ShareOf(static_cast<double>(row.step)))) + "," +
                     Text("%.1f", YOf(axis.ShareOf(*number))));
  }
  if (points.empty()) return "";
  std::string text =
      "<polyline fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke=\"";
  text += std::string(color) + "\" points=\"";
  const size_t stride = (points.size() + kMaxPoints - 1) / kMaxPoints;
  for (size_t i = 0; i < points.size(); i += stride) text += points[i] + " ";
  text += points.back() + "\"/>\n";
  if (points.size() > 1) return text;
  const size_t comma = points[0].find(',');  // A single point is no line, so it gets a dot.
  return text + "<circle r=\"3\" fill=\"" + color + "\" cx=\"" + points[0].substr(0, comma) +
         "\" cy=\"" + points[0].substr(comma + 1) + "\"/>\n";
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
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 420\" width=\"760\" "
      "height=\"420\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"760\" height=\"420\" fill=\"white\"/>\n";
  svg += Label(kWidth / 2, 20, "middle", XmlText(title), " font-size=\"15\"");
  for (const double tick : steps.Ticks()) {
    const double x = XOf(steps.ShareOf(tick));
    svg += Line(x, YOf(0), x, YOf(0) + 5, "black");
    svg += Label(x, YOf(0) + 20, "middle", Text("%.10g", tick));
  }
  for (const double tick : losses.Ticks()) {
    const double y = YOf(losses.ShareOf(tick));
    svg += Line(XOf(0), y, XOf(1), y, "#dddddd");
    svg += Label(XOf(0) - 8, y + 4, "end", Text("%.6g", tick));
  }
  for (const double tick : accuracies.Ticks())
    svg +=
        Label(XOf(1) + 8, YOf(accuracies.ShareOf(tick)) + 4, "start", Text("%.0f %%", 100 * tick));
  svg += Line(XOf(0), YOf(0), XOf(1), YOf(0), "black");
  svg += Line(XOf(0), YOf(0), XOf(0), YOf(1), "black");
  svg += Line(XOf(1), YOf(0), XOf(1), YOf(1), "black");
  svg += Label(kWidth / 2, kHeight - 15, "middle", "steps");
  svg += Label(20, YOf(0.5), "middle", "loss",
               " transform=\"rotate(-90 20 " + Text("%.1f", YOf(0.5)) + ")\"");
  svg += Label(
      kWidth - 12, YOf(0.5), "middle", "accuracy",
      " transform=\"rotate(90 " + Text("%.1f", kWidth - 12) + " " + Text("%.1f", YOf(0.5)) + ")\"");
  double legend_x = XOf(0) + 10;
  for (const Series& line : series) {
    svg += Polyline(rows, line.value, steps, line.is_loss ? losses : accuracies, line.color);
    svg += Line(legend_x, 38, legend_x + 25, 38, line.color);
    svg += Label(legend_x + 32, 42, "start", line.name);
    legend_x += 160;
  }
  return svg + "</svg>\n";
}

}  // namespace tern::client
