// The output of processes that take part in a job (`tern launch`), line by line, each as soon as it
// is whole.
//
// The programs write to files, which this class reads as they grow. So a program never waits for
// whoever reads this output, and its files stay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/terminal_line.h"
#include "tools/run/process.h"

namespace tern::tools {

class ProgramOutput {
 public:
  // Gets whole lines of a process.
  using Print = std::function<void(const ProcessSpec& spec, bool is_stderr, std::string lines)>;
  // `is_read`: whether all that was printed has been written; while it is not, the lines of
  // processes that run stay in their files. Null: it always has.
  explicit ProgramOutput(Print print, std::function<bool()> is_read = nullptr)
      : print_(std::move(print)), is_read_(std::move(is_read)) {}

  // Begins to read the output of a process that was started. What it writes when it is started
  // again is appended to the same files. `stdout_size`, `stderr_size`: what the files had before,
  // in bytes. kCannotWrite if the files cannot be opened.
  Status Add(const ProcessSpec& spec, uint64_t stdout_size = 0, uint64_t stderr_size = 0);
  // Prints the whole lines that have been written since the last call.
  void PrintNew();
  // The same for one process, which has ended: its last line is whole, too.
  void Finish(const ProcessSpec& spec);

 private:
  // A file that grows.
  struct Stream {
    ProcessSpec spec;
    bool is_stderr = false;
    std::unique_ptr<File> file;
    off_t offset = 0;
    std::string rest;  // What was read and is no whole line yet.
  };
  void PrintNew(Stream* stream, bool is_finished);

  const Print print_;
  const std::function<bool()> is_read_;
  std::vector<Stream> streams_;
};

// Prints lines of a process, each with `prefix` in front: those from stdout through `stdout_line`,
// those from stderr to stderr.
void PrintLines(const std::string& prefix, bool is_stderr, std::string lines,
                TerminalLine* stdout_line);

// Removes all whole lines from *text, and returns them with `prefix` in front of each. Of a line
// that was overwritten in place, such as a progress bar's, only what one would see at its end is
// left. A line of more than 64 KiB is cut in pieces.
std::string TakeLines(const std::string& prefix, std::string* text);

}  // namespace tern::tools
