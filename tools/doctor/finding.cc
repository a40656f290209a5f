#include "tools/doctor/finding.h"

#include <algorithm>

#include "common/base/text.h"

namespace tern::tools {

std::string SecondsText(double seconds) {
  constexpr double kMaxSeconds = 1e9;  // More would not fit in nanoseconds.
  return HumanTime(Time(static_cast<int64_t>(1e9 * std::min(seconds, kMaxSeconds) + 0.5)));
}

std::string FormatFindings(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const char* grade = finding.grade == Grade::kGood      ? "good  "
                        : finding.grade == Grade::kWarning ? "warn  "
                                                           : "bad   ";
    text += Cat(grade, finding.subject, ": ", finding.sentence, "\n");
  }
  return text;
}

Status StatusOf(const Findings& findings) {
  const auto is_bad = [](const Finding& finding) { return finding.grade == Grade::kBad; };
  const auto first = std::find_if(findings.begin(), findings.end(), is_bad);
  if (first == findings.end()) return Ok();
  const auto more = std::count_if(std::next(first), findings.end(), is_bad);
  return Status(first->code, Cat("the job cannot run here: ", first->subject, ": ", first->sentence,
                                 more == 0 ? "" : Cat(" (and ", more, " more, see above)")));
}

}  // namespace tern::tools
