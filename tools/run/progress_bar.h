// A progress bar. On a terminal it redraws one line; elsewhere it prints a line from time to time.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"

namespace tern::tools {

// "train  [######----]  60 %  36,000 of 60,000 images, 24,800 a second, 1.0 s left".
std::string BarText(const std::string& name, uint64_t done, uint64_t total, const std::string& unit,
                    Time passed);

class ProgressBar {
 public:
  // Writes to stdout. Measures time from here on.
  ProgressBar(std::string name, std::string unit);
  ~ProgressBar() { EndLine(); }

  void Show(uint64_t done, uint64_t total);
  // Prints a permanent line above the bar.
  void PrintLine(const std::string& line);

 private:
  void EndLine();

  static constexpr Time kBetweenLines = std::chrono::seconds(5);  // when not on a terminal
  static constexpr Time kBetweenFrames = std::chrono::milliseconds(50);

  const std::string name_, unit_;
  const bool terminal_;
  const Time begin_;
  Time shown_at_;
  bool line_open_ = false;
};

}  // namespace tern::tools
