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
  kUsage = 64,         // The command line is wrong.
  kBadData = 65,       // A data file or checkpoint is damaged or unsuitable.
  kAddress = 69,       // An address does not resolve, or a port or folder is in use.
  kInternal = 70,      // There is a bug in Tern, or a system call failed.
  kCannotWrite = 74,   // Output cannot be written: the disk is full, or the folder read-only.
  kPeerLost = 75,      // A peer was lost; a retry may succeed.
  kMismatch = 76,      // A peer's wire version, job, model, exchange plan or data do not fit.
  kNotAllowed = 77,    // The peer is refused: it is unknown, or its rank is taken.
  kBadJob = 78,        // The job file is invalid.
  kDiverged = 79,      // The training diverged: a value is not finite.
  kInterrupted = 130,  // SIGINT stopped the program, which ended in an orderly way.
  kTerminated = 143,   // SIGTERM or SIGHUP stopped the program, which ended in an orderly way.
};
inline constexpr std::array kErrorCodes = {Code::kUsage,    Code::kBadData,     Code::kAddress,
                                           Code::kInternal, Code::kCannotWrite, Code::kPeerLost,
                                           Code::kMismatch, Code::kNotAllowed,  Code::kBadJob,
                                           Code::kDiverged, Code::kInterrupted, Code::kTerminated};

// Returns the error code with this number, which a peer has sent. Any number that is not in
// kErrorCodes, including 0, gives kInternal; a caller for whom 0 means "no error" tests for 0
// first.
constexpr Code ParseErrorCode(uint32_t number) {
  for (const Code code : kErrorCodes) {
    if (static_cast<uint32_t>(code) == number) return code;
  }
  return Code::kInternal;
}

// Whether a restarted process would fail the same way, because the reason is in its flags, data,
// disk, job, training or version, and not in a lost peer, a port or a signal.
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

  // Returns the same error with the message "CONTEXT: message". Ok stays ok.
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
