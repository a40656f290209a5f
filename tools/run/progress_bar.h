// A progress bar. On a terminal it redraws one line; elsewhere it prints a line from time to time.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/terminal_line.h"

namespace tern::tools {

// Returns a line such as:
// "train  [######----]  60 %  36,000 of 60,000 images, 24,800 a second, 1.0 s left".
std::string BarText(const std::string& name, uint64_t num_done, uint64_t total,
                    const std::string& unit, Time elapsed);

class ProgressBar {
 public:
  // The bar writes to stdout. Its speed is measured from the construction on.
  ProgressBar(std::string name, std::string unit);

  // Shows that `num_done` of `total` units are done. Often does nothing, to limit how often it
  // prints.
  void ShowProgress(uint64_t num_done, uint64_t total);
  // Prints a permanent line in place of the bar.
  void PrintLine(const std::string& line);

 private:
  // The least time between two lines, if stdout is no terminal, and between two redraws, if it is.
  static constexpr Time kBetweenLines = std::chrono::seconds(5);
  static constexpr Time kBetweenFrames = std::chrono::milliseconds(50);

  const std::string name_, unit_;
  TerminalLine line_;
  const Time begin_;
  Time shown_at_;
};

}  // namespace tern::tools
