#include "tools/run/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/base/text.h"
#include "tools/run/screen.h"

namespace tern::tools {
namespace {

constexpr uint64_t kBarWidth = 30;

std::string Thousands(uint64_t number) {
  std::string text = Cat(number);
  for (size_t comma_at = text.size(); comma_at > 3;) text.insert(comma_at -= 3, ",");
  return text;
}

}  // namespace

std::string BarText(const std::string& name, uint64_t num_done, uint64_t total,
                    const std::string& unit, Time elapsed) {
  const uint64_t total_units = std::max<uint64_t>(total, 1),
                 filled_width = std::min(num_done, total_units) * kBarWidth / total_units;
  const double units_per_second = static_cast<double>(num_done) / std::max(Seconds(elapsed), 1e-3);
  std::string text =
      Cat(name, "  [", std::string(filled_width, '#'), std::string(kBarWidth - filled_width, '-'),
          "]  ", std::min(num_done, total_units) * 100 / total_units, " %  ", Thousands(num_done),
          " of ", Thousands(total), " ", unit, ", ",
          Thousands(static_cast<uint64_t>(units_per_second)), " a second");
  if (num_done > 0 && num_done < total) {
    const double seconds_left = static_cast<double>(total - num_done) / units_per_second;
    text += Cat(", ", HumanTime(Time(static_cast<int64_t>(seconds_left * 1e9))), " left");
  }
  return text;
}

ProgressBar::ProgressBar(std::string name, std::string unit)
    : name_(std::move(name)),
      unit_(std::move(unit)),
      is_terminal_(isatty(STDOUT_FILENO) == 1),
      begin_(Now()),
      shown_at_(begin_) {}

void ProgressBar::ShowProgress(uint64_t num_done, uint64_t total) {
  const Time now = Now();
  const bool is_last = num_done == total;
  if (!is_last && now - shown_at_ < (is_terminal_ ? kBetweenFrames : kBetweenLines)) return;
  shown_at_ = now;
  std::string line = BarText(name_, num_done, total, unit_, now - begin_);
  if (is_terminal_) {
    line = line.substr(0, ScreenColumns() - 1);  // A wrapped line cannot be redrawn.
    std::printf("\r%s\x1b[K", line.c_str());
    has_open_line_ = true;
  } else {
    std::printf("%s\n", line.c_str());
  }
  if (is_last) EndLine();
  std::fflush(stdout);
}

void ProgressBar::PrintLine(const std::string& line) {
  if (has_open_line_) std::printf("\r\x1b[K");
  has_open_line_ = false;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void ProgressBar::EndLine() {
  if (has_open_line_) std::printf("\n");
  has_open_line_ = false;
}

}  // namespace tern::tools
