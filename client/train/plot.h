// A drawing (SVG) of lines over a horizontal axis. The drawing is 760 x 420, with a margin for the
// labels of the axes. Places are shares of the frame: x from 0, left, to 1, right; y from 0,
// bottom, to 1, top. A color is a name or code of CSS. Threads: any, one at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tern::client {

// A linear axis: the values from `low` to `high`, which are multiples of `tick`.
struct Axis {
  double low = 0, high = 1, tick = 0.2;

  // From 0 to at least `largest`, with about five ticks of 1, 2 or 5 times a power of ten. The
  // default axis if `largest` is not a finite number above 0.
  static Axis UpTo(double largest);
  double ShareOf(double value) const { return (value - low) / (high - low); }
  std::vector<double> Ticks() const;
};

class Plot {
 public:
  explicit Plot(const std::string& title);

  // Add the label of a value on an axis: below, with a tick; left, with a line across the frame;
  // right.
  void AddBottomLabel(double x, const std::string& label);
  void AddLeftLabel(double y, const std::string& label);
  void AddRightLabel(double y, const std::string& label);
  // Draws the axes with their names. Without a name on the right, there is no right axis.
  void AddAxes(const std::string& bottom, const std::string& left, const std::string& right = "");
  // Draws a line, and its name in the legend. Leaves out points that are not finite or outside the
  // frame and, of more than 1000, some. A single point becomes a dot.
  void AddLine(const std::string& name, const char* color,
               const std::vector<std::pair<double, double>>& points);
  // Draws a dashed line from bottom to top, with a label beside its upper end.
  void AddMark(double x, const char* color, const std::string& label);
  // Returns the text of the SVG file.
  std::string Svg() const { return svg_ + "</svg>\n"; }

 private:
  std::string svg_;
  double legend_x_;
};

}  // namespace tern::client
