// What `tern doctor` found: one line a finding.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

enum class Grade {
  kGood,
  kWarning,  // The job can run, but it may be slow or fail later.
  kBad,      // The job cannot run.
};

struct Finding {
  Grade grade = Grade::kGood;
  std::string subject;  // "open files"
  // What was seen. Unless the grade is kGood, also what was expected and what to do. Without a
  // full stop.
  std::string sentence;
  Code code = Code::kOk;  // With which the job would end; kOk unless the grade is kBad.
};

inline Finding Good(std::string subject, std::string sentence) {
  return {Grade::kGood, std::move(subject), std::move(sentence), Code::kOk};
}
inline Finding Warning(std::string subject, std::string sentence) {
  return {Grade::kWarning, std::move(subject), std::move(sentence), Code::kOk};
}
inline Finding Bad(Code code, std::string subject, std::string sentence) {
  return {Grade::kBad, std::move(subject), std::move(sentence), code};
}
using Findings = std::vector<Finding>;

// As HumanTime of text.h.
std::string SecondsText(double seconds);
// A line for each finding: "bad   port 7500: ...".
std::string FormatFindings(const Findings& findings);
// Ok if no finding is bad; else the first bad one, with its code.
Status StatusOf(const Findings& findings);

}  // namespace tern::tools
