// Errors are values. A Status is either ok or a code with one sentence that says what was seen,
// what was expected, where, and what to do. The code is the process's exit code, so `main` ends
// with `return ExitCode(status)`.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tern {

enum class Code : int {
  kOk = 0,
  kUsage = 64,         // wrong flags
  kBadData = 65,       // bad data file or checkpoint
  kAddress = 69,       // an address that does not resolve, a port in use
  kInternal = 70,      // our own bug
  kPeerLost = 75,      // a peer was lost; worth a retry
  kMismatch = 76,      // another wire version, job, model or plan
  kNotAllowed = 77,    // closed by policy: a stranger, a rank already taken
  kBadJob = 78,        // bad job file
  kInterrupted = 130,  // stopped in order by SIGINT
  kTerminated = 143,   // stopped in order by SIGTERM
};

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
