// The runs of `tern sweep`: every combination of values of some keys of a job, each with several
// seeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

struct GridKey {
  std::string key;  // As in --set: train.schedule.learning_rate.
  std::vector<std::string> values;
};

struct SweepRun {
  std::vector<std::string> values;  // One for each key of the grid, in its order.
  uint64_t seed = 0;                // 0: the job's own.
};

// Parses KEY=VALUE,VALUE,... A comma within brackets, braces or quotes belongs to a value. kUsage
// if there is no key, or a value is empty or there twice.
Result<GridKey> ParseGridKey(const std::string& text);

// Returns all combinations; the last key changes fastest, the seed fastest of all. `num_seeds` runs
// of each have the seeds 1, 2, ...; 0: one run, with the job's own seed.
std::vector<SweepRun> RunsOf(const std::vector<GridKey>& grid, uint64_t num_seeds);

// Returns the overrides of the run as for --set: KEY=VALUE of each key, and the seed.
std::vector<std::string> OverridesOf(const std::vector<GridKey>& grid, const SweepRun& run);

// Returns the shortest names, from the end of each key, that tell the keys apart: learning_rate for
// train.schedule.learning_rate.
std::vector<std::string> ShortNames(const std::vector<GridKey>& grid);

// Returns the name of the run's folder, such as "learning_rate=0.1,codec=fp32,seed=2". Characters
// that have a meaning in a shell or a path are replaced by '_', and the name is cut where it is
// long; it then ends with a digest, so that no two runs share a folder.
std::string FolderOf(const std::vector<GridKey>& grid, const SweepRun& run);

}  // namespace tern::tools
