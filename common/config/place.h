// Where a job runs, if its environment says so: values of keys in place of those of the job file.
#pragma once

#include <string>
#include <vector>

namespace tern::config {

// The environment variables that have these values, as messages call them.
inline constexpr const char* kServersVariable = "TERN_SERVERS";
inline constexpr const char* kWorkersVariable = "TERN_WORKERS";
inline constexpr const char* kOutputVariable = "TERN_OUTPUT_DIR";

struct Place {
  // The address of each shard; the job then has as many shards. A shard has the other keys of the
  // file's shard with its number or, where the file has fewer, of its last one. Empty: as in the
  // file.
  std::vector<std::string> servers;
  std::string workers;     // workers.count; "": as in the file
  std::string output_dir;  // "": as in the file
};

}  // namespace tern::config
