#include "tools/run/shard0_silence.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"

namespace tern::tools {
namespace {

// What the lines begin with, or have, in which a daemon logs whom it awaits or has lost
// (common/protocol/members: watch.cc and links.cc of workers, liveness.cc of shard 0).
constexpr const char *kStillWaiting = "still waiting for ", *kIsLost = " is lost: ";

}  // namespace

void Shard0Silence::OnReport(bool has_begun, Time now) {
  heard_at_ = now;
  if (has_begun) notice_at_ = now + limits_.notice_after;
  if (end_at_.has_value()) end_at_ = now + limits_.end_after;
}

void Shard0Silence::OnStop(Time now) {
  heard_at_ = now;
  end_at_ = now + limits_.end_after;
}

void Shard0Silence::Cease() {
  notice_at_.reset();
  end_at_.reset();
}

std::optional<Time> Shard0Silence::NextDue() const {
  if (!notice_at_.has_value() || !end_at_.has_value()) return std::max(notice_at_, end_at_);
  return std::min(notice_at_, end_at_);
}

std::string Shard0Silence::Text(Time now) const {
  return Cat("server 0 has reported nothing for ", std::lround(Seconds(now - heard_at_)), " s");
}

std::string Shard0Silence::EndText(Time now) const {
  return Text(now) +
         " since the stop signal, so all processes get it now, and are killed 2 s later if they "
         "have not ended";
}

std::string LinesOfWaiting(const std::vector<LastLine>& last_lines) {
  std::string lines;
  std::vector<std::string> texts;
  for (const auto& [process, text] : last_lines) {
    if (!text.starts_with(kStillWaiting) && text.find(kIsLost) == std::string::npos) continue;
    // Many workers may wait for the same server.
    if (std::count(texts.begin(), texts.end(), text) > 0) continue;
    texts.push_back(text);
    lines += Cat("\n  ", process, ": ", text);
  }
  return lines;
}

}  // namespace tern::tools
