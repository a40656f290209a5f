#include "tools/run/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/text.h"

namespace tern::tools {
namespace {

constexpr uint64_t kBarWidth = 30;

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
      line_(STDOUT_FILENO),
      begin_(Now()),
      shown_at_(begin_) {}

void ProgressBar::ShowProgress(uint64_t num_done, uint64_t total) {
  const Time now = Now();
  const bool is_last = num_done == total;
  if (!is_last && now - shown_at_ < (line_.is_in_place() ? kBetweenFrames : kBetweenLines)) return;
  shown_at_ = now;
  const std::string text = BarText(name_, num_done, total, unit_, now - begin_);
  if (!line_.is_in_place()) return line_.Print(text);
  line_.Redraw(text);
  if (is_last) line_.End();
}

void ProgressBar::PrintLine(const std::string& line) {
  line_.Erase();
  line_.Print(line);
}

}  // namespace tern::tools
