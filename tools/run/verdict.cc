#include "tools/run/verdict.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "common/base/text.h"

namespace tern::tools {
namespace {

// The exit codes that tell why a process failed.
constexpr std::array kReasonCodes = {Code::kUsage,      Code::kBadData,     Code::kAddress,
                                     Code::kInternal,   Code::kCannotWrite, Code::kMismatch,
                                     Code::kNotAllowed, Code::kBadJob,      Code::kDiverged};

bool HasCode(const Failure& failure, Code code) {
  return failure.exit.signal == 0 && failure.exit.code == static_cast<int>(code);
}

// Returns whether the process failed only because another process had failed.
bool IsConsequence(const Failure& failure, const std::optional<setup::ProgressUpdate>& end_report) {
  if (failure.exit.signal != 0) return false;
  return HasCode(failure, Code::kPeerLost) ||
         (end_report.has_value() && failure.exit.code == end_report->code);
}

// Whether it is a server that could not write its last checkpoint. It writes that after the job's
// end, which shard 0 reports only when it has written its own.
bool LacksLastCheckpoint(const Failure& failure) {
  return failure.process_name.starts_with("server ") && HasCode(failure, Code::kCannotWrite);
}

bool IsOrderlyEnd(int code) {
  const auto is_code = [code](Code other) { return code == static_cast<int>(other); };
  return is_code(Code::kOk) || is_code(Code::kInterrupted) || is_code(Code::kTerminated);
}

// The exit code that tells why the process failed; empty if it has none.
std::optional<Code> ReasonOf(const Failure& failure) {
  const Exit& exit = failure.exit;
  if (failure.is_users_program && exit.signal == 0)
    return exit.code == 0 ? Code::kUsage : static_cast<Code>(exit.code);
  return HasReasonCode(exit) ? std::optional(static_cast<Code>(exit.code)) : std::nullopt;
}

// A server whose address another job has. A worker may have met that job's server earlier, and been
// refused by it.
bool HasNoAddress(const Failure& failure) {
  return failure.process_name.starts_with("server ") && HasCode(failure, Code::kAddress);
}
bool MayHaveMetAnotherJob(const Failure& failure) {
  return HasCode(failure, Code::kNotAllowed) || HasCode(failure, Code::kMismatch);
}

std::string RootCauseText(const Failure& failure) {
  return Cat("root cause: ", Describe(failure),
             "\n  its output: ", failure.host.empty() ? "" : failure.host + ":",
             failure.stderr_path);
}

}  // namespace

bool HasReasonCode(const Exit& exit) {
  return exit.signal == 0 && std::any_of(kReasonCodes.begin(), kReasonCodes.end(), [&](Code code) {
           return static_cast<int>(code) == exit.code;
         });
}

bool WouldRecur(const Failure& failure) {
  const Exit& exit = failure.exit;
  if (failure.is_users_program && exit.signal == 0 && exit.code == 0) return true;
  return HasReasonCode(exit) && IsLasting(static_cast<Code>(exit.code));
}

void LearnProgramPid(const setup::ProgressUpdate& report, Time now, Failure* failure) {
  constexpr Time kSoon = std::chrono::seconds(2);
  if (!failure->is_users_program || failure->program_pid != 0 || now > failure->seen_at + kSoon)
    return;
  if (failure->rank < report.processes.size())
    failure->program_pid = report.processes[failure->rank].pid;
}

bool WasReplaced(const Failure& failure, const setup::ProgressUpdate& report) {
  const size_t rank = failure.rank;
  const uint64_t pid = rank < report.processes.size() ? report.processes[rank].pid : 0;
  return pid != 0 && pid != static_cast<uint64_t>(failure.pid) && pid != failure.program_pid;
}

std::string Describe(const Failure& failure) {
  return Cat(failure.process_name, failure.host.empty() ? "" : " on " + failure.host,
             failure.pid == 0 ? " " : Cat(" (process ", failure.pid, ") "), Describe(failure.exit),
             failure.sentence.empty()                            ? ""
             : failure.exit.signal == 0 || failure.exit.was_lost ? ": "
                                                                 : "; its last output: ",
             failure.sentence);
}

Status JudgeRun(const std::vector<Failure>& failures,
                const std::optional<setup::ProgressUpdate>& end_report, StopSignal stop) {
  const bool ended_in_order = end_report.has_value() && IsOrderlyEnd(end_report->code);
  const auto may_be_root = [&](const Failure& failure) {
    // A job that ended in order recovered from all failures that came before its end.
    return !IsConsequence(failure, end_report) &&
           (!ended_in_order || failure.job_was_over || LacksLastCheckpoint(failure));
  };
  auto root_failure = std::find_if(failures.begin(), failures.end(), [&](const Failure& failure) {
    return failure.is_users_program && may_be_root(failure) && end_report.has_value() &&
           end_report->sentence.starts_with(failure.process_name + " ");
  });
  if (root_failure == failures.end())
    root_failure = std::find_if(failures.begin(), failures.end(), may_be_root);
  if (root_failure != failures.end() && MayHaveMetAnotherJob(*root_failure)) {
    const auto server = std::find_if(root_failure, failures.end(), HasNoAddress);
    if (server != failures.end()) root_failure = server;
  }
  if (root_failure != failures.end() && ended_in_order) {
    const std::optional<Code> code = ReasonOf(*root_failure);
    const bool has_reason = code.has_value();
    return Status(code.value_or(Code::kInternal),
                  Cat("the job ended in order, but afterwards a process ",
                      has_reason ? "failed" : "crashed", "\n  ", RootCauseText(*root_failure)));
  }
  if (ended_in_order && end_report->code == 0 && stop.ended_programs) {
    return Status(static_cast<Code>(128 + stop.signal),
                  Cat("stopped by signal ", stop.signal,
                      " after the job's end, by which programs "
                      "that still ran were ended"));
  }
  if (ended_in_order) return Status(static_cast<Code>(end_report->code), end_report->sentence);
  if (root_failure != failures.end()) {
    const int code_without_reason =
        end_report.has_value() ? end_report->code : static_cast<int>(Code::kPeerLost);
    const std::string job_end_text =
        end_report.has_value()
            ? Cat("\n  then the job ended with code ", end_report->code, ": ", end_report->sentence)
            : "";
    return Status(ReasonOf(*root_failure).value_or(static_cast<Code>(code_without_reason)),
                  "the job failed\n  " + RootCauseText(*root_failure) + job_end_text);
  }
  const bool lost_by_forced_stop = stop.was_forced && end_report.has_value() &&
                                   end_report->code == static_cast<int>(Code::kPeerLost);
  if (end_report.has_value() && !lost_by_forced_stop) {
    return Status(static_cast<Code>(end_report->code),
                  "the job failed\n  root cause: server 0 ended it: " + end_report->sentence);
  }
  if (stop.signal != 0) {
    return Status(static_cast<Code>(128 + stop.signal),
                  Cat("stopped by signal ", stop.signal, ", not in order"));
  }
  if (!failures.empty()) {
    return Status(static_cast<Code>(failures.front().exit.code),
                  "the job failed\n  " + RootCauseText(failures.front()));
  }
  return Ok();
}

}  // namespace tern::tools
