// The output of programs that take part in a job (`tern launch`): each line with the program's rank
// in front, "[0] step 100", as soon as it is whole.
//
// The programs write to files, which this class reads as they grow. So a program never waits for
// whoever reads this output, and its files stay.
#pragma once

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
  // Lines that programs have written to stdout are printed through `stdout_line`, which must
  // outlive this object; those from stderr go to stderr.
  explicit ProgramOutput(TerminalLine& stdout_line) : stdout_line_(stdout_line) {}

  // Begins to read the output of a program that was started. What it writes when it is started
  // again is appended to the same files. kCannotWrite if the files cannot be opened.
  Status Add(const ProcessSpec& spec);
  // Prints the whole lines that have been written since the last call.
  void Print();
  // The same for one program, which has ended: its last line is whole, too.
  void Finish(const ProcessSpec& spec);

 private:
  // A file that grows.
  struct Stream {
    std::string name;    // Of its program: "worker 1".
    std::string prefix;  // "[1] "
    bool is_stderr = false;
    std::unique_ptr<File> file;
    off_t offset = 0;
    std::string rest;  // What was read and is no whole line yet.
  };
  void Print(Stream* stream, bool is_finished);

  TerminalLine& stdout_line_;
  std::vector<Stream> streams_;
};

// Removes all whole lines from *text, and returns them with `prefix` in front of each. Of a line
// that was overwritten in place, such as a progress bar's, only what one would see at its end is
// left. A line of more than 64 KiB is cut in pieces.
std::string TakeLines(const std::string& prefix, std::string* text);

}  // namespace tern::tools
