#include "client/train/plot.h"

#include <cmath>

#include "common/base/text.h"

namespace tern::client {
namespace {

constexpr double kWidth = 760, kHeight = 420, kLeft = 70, kRight = 70, kTop = 50, kBottom = 60;
constexpr double kLegendWidth = 160;
constexpr size_t kMaxPoints = 1000;

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

double XOf(double share) { return kLeft + share * (kWidth - kLeft - kRight); }
double YOf(double share) { return kHeight - kBottom - share * (kHeight - kTop - kBottom); }

std::string Number(double value) { return FormatWith("%.1f", value); }

std::string Label(double x, double y, const char* anchor, const std::string& text,
                  const std::string& more = "") {
  return "<text x=\"" + Number(x) + "\" y=\"" + Number(y) + "\" text-anchor=\"" + anchor + "\"" +
         more + ">" + XmlText(text) + "</text>\n";
}

std::string Line(double x1, double y1, double x2, double y2, const char* color,
                 const std::string& more = "") {
  return "<line x1=\"" + Number(x1) + "\" y1=\"" + Number(y1) + "\" x2=\"" + Number(x2) +
         "\" y2=\"" + Number(y2) + "\" stroke=\"" + color + "\"" + more + "/>\n";
}

// The name of a vertical axis, turned by `degrees`.
std::string AxisName(double x, const char* degrees, const std::string& name) {
  const double y = YOf(0.5);
  return Label(
      x, y, "middle", name,
      std::string(" transform=\"rotate(") + degrees + " " + Number(x) + " " + Number(y) + ")\"");
}

bool IsInFrame(const std::pair<double, double>& point) {
  constexpr double kEdge = 1e-9;
  const auto is_share = [](double v) { return v >= -kEdge && v <= 1 + kEdge; };
  return is_share(point.first) && is_share(point.second);
}

}  // namespace

Axis Axis::UpTo(double largest) {
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

std::vector<double> Axis::Ticks() const {
  std::vector<double> ticks;
  for (int i = 0; low + i * tick <= high * (1 + 1e-9); ++i) ticks.push_back(low + i * tick);
  return ticks;
}

Plot::Plot(const std::string& title)
    : svg_(
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 420\" width=\"760\" "
          "height=\"420\" font-family=\"sans-serif\" font-size=\"13\">\n"
          "<rect width=\"760\" height=\"420\" fill=\"white\"/>\n"),
      legend_x_(XOf(0) + 10) {
  svg_ += Label(kWidth / 2, 20, "middle", title, " font-size=\"15\"");
}

void Plot::AddBottomLabel(double x, const std::string& label) {
  svg_ += Line(XOf(x), YOf(0), XOf(x), YOf(0) + 5, "black");
  svg_ += Label(XOf(x), YOf(0) + 20, "middle", label);
}

void Plot::AddLeftLabel(double y, const std::string& label) {
  svg_ += Line(XOf(0), YOf(y), XOf(1), YOf(y), "#dddddd");
  svg_ += Label(XOf(0) - 8, YOf(y) + 4, "end", label);
}

void Plot::AddRightLabel(double y, const std::string& label) {
  svg_ += Label(XOf(1) + 8, YOf(y) + 4, "start", label);
}

void Plot::AddAxes(const std::string& bottom, const std::string& left, const std::string& right) {
  svg_ += Line(XOf(0), YOf(0), XOf(1), YOf(0), "black");
  svg_ += Line(XOf(0), YOf(0), XOf(0), YOf(1), "black");
  if (!right.empty()) svg_ += Line(XOf(1), YOf(0), XOf(1), YOf(1), "black");
  svg_ += Label(kWidth / 2, kHeight - 15, "middle", bottom);
  svg_ += AxisName(20, "-90", left);
  if (!right.empty()) svg_ += AxisName(kWidth - 12, "90", right);
}

void Plot::AddLine(const std::string& name, const char* color,
                   const std::vector<std::pair<double, double>>& points) {
  std::vector<std::pair<std::string, std::string>> places;
  for (const auto& point : points) {
    if (IsInFrame(point)) places.emplace_back(Number(XOf(point.first)), Number(YOf(point.second)));
  }
  if (!places.empty()) {
    svg_ += "<polyline fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke=\"";
    svg_ += std::string(color) + "\" points=\"";
    const size_t stride = (places.size() + kMaxPoints - 1) / kMaxPoints;
    for (size_t i = 0; i < places.size(); i += stride)
      svg_ += places[i].first + "," + places[i].second + " ";
    svg_ += places.back().first + "," + places.back().second + "\"/>\n";
  }
  if (places.size() == 1) {  // A single point is no line.
    svg_ += std::string("<circle r=\"3\" fill=\"") + color + "\" cx=\"" + places[0].first +
            "\" cy=\"" + places[0].second + "\"/>\n";
  }
  svg_ += Line(legend_x_, 38, legend_x_ + 25, 38, color);
  svg_ += Label(legend_x_ + 32, 42, "start", name);
  legend_x_ += kLegendWidth;
}

void Plot::AddMark(double x, const char* color, const std::string& label) {
  svg_ += Line(XOf(x), YOf(0), XOf(x), YOf(1), color, " stroke-dasharray=\"6 4\"");
  const bool is_left = x < 0.5;  // The label stands where there is more room.
  svg_ += Label(XOf(x) + (is_left ? 6 : -6), YOf(1) + 14, is_left ? "start" : "end", label,
                std::string(" fill=\"") + color + "\"");
}

}  // namespace tern::client
