// The trace of a job: one file in Chrome's trace-event format, made of those that the daemons with
// --trace write (common/base/trace.h). Times begin with the first event; all daemons ran on this
// machine, so their clocks are one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

class JobTrace {
 public:
  JobTrace(std::string output_dir, uint32_t servers, uint32_t workers);

  // Removes what an earlier run has left, so that it is not taken for this run's.
  void RemoveOldFiles() const;
  struct Written {
    Status status;         // kCannotWrite if the file could not be written
    std::string sentence;  // where the trace is, and what is missing in it
  };
  // Writes trace.json to output_dir, and removes the daemons' files. Of a server it takes what
  // happened between the beginning of the first and the end of the last step that a worker has
  // recorded. Daemons that left no file, or a damaged one, are named.
  Written Merge() const;

 private:
  struct Part {
    std::string daemon;  // "worker 1"
    std::string path;
    bool is_worker = false;
  };
  std::string MergedPath() const { return output_dir_ + "/trace.json"; }

  const std::string output_dir_;
  std::vector<Part> parts_;  // workers, then servers
};

}  // namespace tern::tools
