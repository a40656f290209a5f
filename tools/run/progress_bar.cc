#include "tools/run/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/base/text.h"
#include "tools/run/screen.h"

namespace tern::tools {
namespace {

constexpr uint64_t kWidth = 30;

std::string Thousands(uint64_t number) {
  std::string text = Cat(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace

std::string BarText(const std::string& name, uint64_t done, uint64_t total, const std::string& unit,
                    Time passed) {
  const uint64_t units = std::max<uint64_t>(total, 1),
                 filled = std::min(done, units) * kWidth / units;
  const double rate = static_cast<double>(done) / std::max(Seconds(passed), 1e-3);
  std::string text =
      Cat(name, "  [", std::string(filled, '#'), std::string(kWidth - filled, '-'), "]  ",
          std::min(done, units) * 100 / units, " %  ", Thousands(done), " of ", Thousands(total),
          " ", unit, ", ", Thousands(static_cast<uint64_t>(rate)), " a second");
  if (done > 0 && done < total) {
    const double left = static_cast<double>(total - done) / rate;
    text += Cat(", ", HumanTime(Time(static_cast<int64_t>(left * 1e9))), " left");
  }
  return text;
}

ProgressBar::ProgressBar(std::string name, std::string unit)
    : name_(std::move(name)),
      unit_(std::move(unit)),
      terminal_(isatty(STDOUT_FILENO) == 1),
      begin_(Now()),
      shown_at_(begin_) {}

void ProgressBar::Show(uint64_t done, uint64_t total) {
  const Time now = Now();
  const bool is_last = done == total;
  if (!is_last && now - shown_at_ < (terminal_ ? kBetweenFrames : kBetweenLines)) return;
  shown_at_ = now;
  std::string line = BarText(name_, done, total, unit_, now - begin_);
  if (terminal_) {
    line = line.substr(0, ScreenColumns() - 1);  // A wrapped line cannot be redrawn.
    std::printf("\r%s\x1b[K", line.c_str());
    line_open_ = true;
  } else {
    std::printf("%s\n", line.c_str());
  }
  if (is_last) EndLine();
  std::fflush(stdout);
}

void ProgressBar::PrintLine(const std::string& line) {
  if (line_open_) std::printf("\r\x1b[K");
  line_open_ = false;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void ProgressBar::EndLine() {
  if (line_open_) std::printf("\n");
  line_open_ = false;
}

}  // namespace tern::tools
