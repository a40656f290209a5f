// Errors are values. A Status is either ok or a code with one sentence that says what was seen,
// what was expected, where, and what to do. The code is the process's exit code, so `main` ends
// with `return ExitCode(status)`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tern {

enum class Code : int {
  kOk = 0,
  kUsage = 64,         // wrong flags
  kBadData = 65,       // bad data file or checkpoint
  kAddress = 69,       // an address that does not resolve, a port in use
  kInternal = 70,      // a bug in Tern, or a failed system call
  kCannotWrite = 74,   // output cannot be written: a full disk, a read-only folder
  kPeerLost = 75,      // a peer was lost; a retry may succeed
  kMismatch = 76,      // the peer has another wire version, job, model or plan
  kNotAllowed = 77,    // refused: an unknown peer, a rank that is taken
  kBadJob = 78,        // bad job file
  kDiverged = 79,      // the training diverged: a value that is not finite
  kInterrupted = 130,  // stopped in order by SIGINT
  kTerminated = 143,   // stopped in order by SIGTERM or SIGHUP
};
inline constexpr std::array kErrorCodes = {Code::kUsage,    Code::kBadData,     Code::kAddress,
                                           Code::kInternal, Code::kCannotWrite, Code::kPeerLost,
                                           Code::kMismatch, Code::kNotAllowed,  Code::kBadJob,
                                           Code::kDiverged, Code::kInterrupted, Code::kTerminated};

// The error code with this number, which came from a peer; kInternal for any number that is not in
// kErrorCodes, also for 0. Callers that accept 0 as "no error" check for it first.
constexpr Code ParseErrorCode(uint32_t number) {
  for (const Code code : kErrorCodes) {
    if (static_cast<uint32_t>(code) == number) return code;
  }
  return Code::kInternal;
}

// Whether a restarted process would fail the same way, because the reason is in its flags, data,
// disk, job or training, and not in a peer, a port or a signal.
constexpr bool IsLasting(Code code) {
  switch (code) {
    case Code::kUsage:
    case Code::kBadData:
    case Code::kCannotWrite:
    case Code::kMismatch:
    case Code::kBadJob:
    case Code::kDiverged:
      return true;
    default:
      return false;
  }
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with its context: "CONTEXT: message". Ok stays ok.
  Status Within(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status Ok() { return Status(); }
inline int ExitCode(const Status& status) { return static_cast<int>(status.code()); }

// A value or the error that prevented it. REQUIRES ok() before value access.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: REQUIRES !status.ok()

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tern

// Returns from the function if the expression is an error.
#define TERN_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                 \
    if (::tern::Status tern_status_ = (expr); !tern_status_.ok()) return tern_status_; \
  } while (false)
