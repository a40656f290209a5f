// The environment of a user who exports where his jobs run.
#pragma once

#include <cstdlib>
#include <string>

namespace tern::e2e {

// Sets TERN_OUTPUT_DIR, TERN_WORKERS and TERN_SERVERS for the programs that the test starts, until
// the destructor. `servers`: HOST:PORT,HOST:PORT,...
class PlaceVariables {
 public:
  PlaceVariables(const std::string& output_dir, const std::string& workers,
                 const std::string& servers) {
    setenv("TERN_OUTPUT_DIR", output_dir.c_str(), 1);
    setenv("TERN_WORKERS", workers.c_str(), 1);
    setenv("TERN_SERVERS", servers.c_str(), 1);
  }
  ~PlaceVariables() {
    for (const char* variable : {"TERN_OUTPUT_DIR", "TERN_WORKERS", "TERN_SERVERS"})
      unsetenv(variable);
  }
  PlaceVariables(const PlaceVariables&) = delete;
  PlaceVariables& operator=(const PlaceVariables&) = delete;
};

}  // namespace tern::e2e
