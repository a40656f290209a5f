// Output for people on stdout or stderr: permanent lines, and on a terminal one line below them,
// which is redrawn in place. All functions may be called by any thread.
#pragma once

#include <cstddef>
#include <string>

#include "common/base/mutex.h"

namespace tern {

class TerminalLine {
 public:
  // Writes to `fd`, which must stay open: STDOUT_FILENO or STDERR_FILENO.
  explicit TerminalLine(int fd);
  ~TerminalLine() { End(); }

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
  // newline. Waits for as long as `fd` takes no output.
  void Print(const std::string& text);
  // Like Print, but drops the text if `fd` takes no output now.
  void TryPrint(const std::string& text);

 private:
  bool CanWrite() const;
  void Write(const std::string& text) const TERN_MUST_HOLD(mutex_);
  void PrintLocked(const std::string& text) TERN_MUST_HOLD(mutex_);

  const int fd_;
  const bool is_in_place_;
  Mutex mutex_;
  // Whether no newline has ended the line at the bottom.
  bool has_open_line_ TERN_GUARDED_BY(mutex_) = false;
};

// This process's stderr. Logs go through it, so that they do not begin in the middle of a line.
TerminalLine& StderrLine();

}  // namespace tern
