// Whether output_dir can take what the daemons of this machine write there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "setup/setup.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/members.h"

namespace tern::tools {

// What a job writes to output_dir, without logs. Sizes are estimates, most exact for codecs
// without memory.
struct DiskNeeds {
  // One checkpoint of every daemon here, which they write at the same time; 0: the job has none.
  uint64_t checkpoint_bytes = 0;
  // All that they keep at the same time, less what they have there already: checkpoints, one more
  // while it is written, and final weights.
  uint64_t total_bytes = 0;
};
DiskNeeds DiskNeedsOf(const setup::Setup& setup, const Members& members);

// What the disk of `folder` does. The test file has no name, so nothing remains of it.
struct DiskFacts {
  uint64_t free_bytes = 0;  // for this user
  double bytes_s = 0;       // written and flushed in pieces of 4 MiB, a second
};
// Writes up to 64 MiB, for about a second. kCannotWrite if that fails.
Result<DiskFacts> MeasureDisk(const std::string& folder);

Finding JudgeFreeSpace(uint64_t free_bytes, uint64_t needed_bytes);
// `every_steps`: between two checkpoints. `step_s`: seconds that a step computes; nullopt: unknown.
// `timeout_s`: a worker that waits longer for its disk counts as lost.
Finding JudgeDiskSpeed(double bytes_s, uint64_t checkpoint_bytes, uint64_t every_steps,
                       std::optional<double> step_s, double timeout_s);

// All findings about output_dir.
Findings CheckDisk(const setup::Setup& setup, const Members& members, std::optional<double> step_s);

}  // namespace tern::tools
