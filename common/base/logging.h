// The log: LOG(INFO) << ..., and CHECK for bugs of the program only, never for input from users,
// files or peers. log_sink.h says where the lines go. Thread-safe.
//
//   LOG(level) << ...                level: INFO, WARNING, ERROR or FATAL, which ends the process
//   LOG_IF(level, condition) << ...
//   VLOG(n) << ...                   a line of level INFO if SetVerbosity was called with n or more
//   CHECK(condition) << ...          a line of level FATAL if the condition does not hold
//   CHECK_EQ(a, b), CHECK_LT(a, b)   the same, with both values
#pragma once

#include <sstream>
#include <string>

#include "common/base/log_sink.h"

namespace tern::logging_internal {

// A line that is being written; its destructor logs it.
class Line {
 public:
  Line(LogLevel level, const char* file, int line) : level_(level), file_(file), line_(line) {}
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  const LogLevel level_;
  const char* const file_;
  const int line_;
  std::ostringstream stream_;
};

// Makes an expression with << void, so that it can stand behind ?:.
struct Voidify {
  void operator&(std::ostream&) {}
};

// Nullptr if the comparison holds; otherwise what was compared, and both values.
template <typename A, typename B, typename Compare>
std::string* FailedComparison(const A& a, const B& b, Compare compare, const char* text) {
  if (compare(a, b)) return nullptr;
  std::ostringstream stream;
  stream << "Check failed: " << text << " (" << a << " vs. " << b << ") ";
  return new std::string(stream.str());  // The process ends.
}

}  // namespace tern::logging_internal

#define LOG(level) \
  ::tern::logging_internal::Line(::tern::LogLevel::k##level, __FILE__, __LINE__).stream()
#define LOG_IF(level, condition) \
  !(condition) ? (void)0 : ::tern::logging_internal::Voidify() & LOG(level)
#define VLOG(n) LOG_IF(INFO, ::tern::IsVerbose(n))
#define CHECK(condition) LOG_IF(FATAL, !(condition)) << "Check failed: " #condition " "
#define TERN_CHECK_THAT(a, op, b)                                                           \
  while (const std::string* failed = ::tern::logging_internal::FailedComparison(            \
             a, b, [](const auto& x, const auto& y) { return x op y; }, #a " " #op " " #b)) \
  LOG(FATAL) << *failed
#define CHECK_EQ(a, b) TERN_CHECK_THAT(a, ==, b)
#define CHECK_LT(a, b) TERN_CHECK_THAT(a, <, b)
