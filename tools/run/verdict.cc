#include "tools/run/verdict.h"

#include <algorithm>
#include <array>

#include "common/base/text.h"

namespace tern::tools {
namespace {

constexpr std::array kReasonCodes = {Code::kUsage,      Code::kBadData,     Code::kAddress,
                                     Code::kInternal,   Code::kCannotWrite, Code::kMismatch,
                                     Code::kNotAllowed, Code::kBadJob,      Code::kDiverged};

// Returns whether the process failed only because another process had failed.
bool IsConsequence(const Failure& failure, const std::optional<setup::ProgressUpdate>& ended) {
  if (failure.exit.signal != 0) return false;
  return failure.exit.code == static_cast<int>(Code::kPeerLost) ||
         (ended.has_value() && failure.exit.code == ended->code);
}

bool IsOrderlyEnd(int code) {
  const auto equals = [code](Code other) { return code == static_cast<int>(other); };
  return equals(Code::kOk) || equals(Code::kInterrupted) || equals(Code::kTerminated);
}

std::string RootCause(const Failure& failure) {
  return Cat("root cause: ", Describe(failure), "\n  its output: ", failure.output);
}

}  // namespace

bool HasReasonCode(const Exit& exit) {
  return exit.signal == 0 && std::any_of(kReasonCodes.begin(), kReasonCodes.end(), [&](Code code) {
           return static_cast<int>(code) == exit.code;
         });
}

bool WouldRecur(const Exit& exit) {
  return HasReasonCode(exit) && IsLasting(static_cast<Code>(exit.code));
}

std::string Describe(const Failure& failure) {
  return Cat(failure.process, " (process ", failure.pid, ") ", Describe(failure.exit),
             failure.sentence.empty()   ? ""
             : failure.exit.signal == 0 ? ": "
                                        : "; its last output: ",
             failure.sentence);
}

Status JudgeRun(const std::vector<Failure>& failures,
                const std::optional<setup::ProgressUpdate>& ended, StopSignal stop) {
  const bool in_order = ended.has_value() && IsOrderlyEnd(ended->code);
  const auto root = std::find_if(failures.begin(), failures.end(), [&](const Failure& failure) {
    // A job that ended in order recovered from all failures that came before its end.
    return !IsConsequence(failure, ended) && (!in_order || failure.job_was_over);
  });
  if (root != failures.end() && in_order) {
    const bool has_reason = HasReasonCode(root->exit);
    return Status(has_reason ? static_cast<Code>(root->exit.code) : Code::kInternal,
                  Cat("the job ended in order, but afterwards a process ",
                      has_reason ? "failed" : "crashed", "\n  ", RootCause(*root)));
  }
  if (in_order) return Status(static_cast<Code>(ended->code), ended->sentence);
  if (root != failures.end()) {
    const int code_without_reason =
        ended.has_value() ? ended->code : static_cast<int>(Code::kPeerLost);
    const std::string job_end = ended.has_value() ? Cat("\n  then the job ended with code ",
                                                        ended->code, ": ", ended->sentence)
                                                  : "";
    return Status(
        static_cast<Code>(HasReasonCode(root->exit) ? root->exit.code : code_without_reason),
        "the job failed\n  " + RootCause(*root) + job_end);
  }
  const bool lost_by_forced_stop =
      stop.forced && ended.has_value() && ended->code == static_cast<int>(Code::kPeerLost);
  if (ended.has_value() && !lost_by_forced_stop) {
    return Status(static_cast<Code>(ended->code),
                  "the job failed\n  root cause: server 0 ended it: " + ended->sentence);
  }
  if (stop.signal != 0) {
    return Status(static_cast<Code>(128 + stop.signal),
                  Cat("stopped by signal ", stop.signal, ", not in order"));
  }
  if (!failures.empty()) {
    return Status(static_cast<Code>(failures.front().exit.code),
                  "the job failed\n  " + RootCause(failures.front()));
  }
  return Ok();
}

}  // namespace tern::tools
