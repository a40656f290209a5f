// Output for people on stdout or stderr: permanent lines, and on a terminal one line below them,
// which is redrawn in place. All functions may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tern {

// If nobody reads the output (Ctrl-S, `| less`, a dead ssh session), a call waits, but all calls
// together for at most kPatience and a 32nd of the time, because a job must not stand still for
// that. What is not written then waits in memory, and follows in order.
class TerminalLine {
 public:
  // Writes to `fd`, which must stay open: STDOUT_FILENO or STDERR_FILENO.
  explicit TerminalLine(int fd);
  // Waits for as long as something is not written.
  ~TerminalLine();

  // Whether Redraw() draws in place: `fd` is a terminal, and TERM does not say that it knows no
  // control sequences ("dumb").
  bool is_in_place() const { return is_in_place_; }
  // The width of the terminal in characters; 80 if it is unknown.
  size_t columns() const;

  // Replaces the line at the bottom; cuts it to the width of the terminal, because a wrapped line
  // cannot be redrawn. Does nothing if the terminal takes no output now (Ctrl-S) or another thread
  // is printing, so that this thread does not have to wait. REQUIRES is_in_place().
  void Redraw(const std::string& line);
  // Removes the line at the bottom.
  void Erase();
  // Makes the line at the bottom, if there is one, a permanent line.
  void End();
  // Prints one or more permanent lines above the line at the bottom; `text` may lack the last
  // newline. If kMaxWaitingBytes wait already, leaves the lines out; a line says later how many.
  void Print(const std::string& text);
  // Writes what waits, as far as `fd` takes it within `patience`. Returns whether all is written.
  bool Drain(Time patience);

  static constexpr Time kForever = Time::max();
  static constexpr Time kPatience = std::chrono::milliseconds(250);
  static constexpr size_t kMaxWaitingBytes = 16 << 20;

 private:
  bool CanWrite() const;
  void Write(const std::string& text) TERN_MUST_HOLD(mutex_);
  bool DrainLocked(Time patience) TERN_MUST_HOLD(mutex_);

  const int fd_;
  const bool is_in_place_;
  Mutex mutex_;
  // Whether no newline has ended the line at the bottom.
  bool has_open_line_ TERN_GUARDED_BY(mutex_) = false;
  std::string waiting_ TERN_GUARDED_BY(mutex_);  // from waiting_begin_ on: not written yet
  size_t waiting_begin_ TERN_GUARDED_BY(mutex_) = 0;
  uint64_t num_left_out_ TERN_GUARDED_BY(mutex_) = 0;  // lines, behind those that wait
  // For how long calls may still wait, as of the time patience_at_. It grows back slowly.
  Time patience_ TERN_GUARDED_BY(mutex_) = kPatience;
  Time patience_at_ TERN_GUARDED_BY(mutex_);
};

// This process's stderr. Logs go through it, so that they do not begin in the middle of a line.
TerminalLine& StderrLine();

}  // namespace tern
