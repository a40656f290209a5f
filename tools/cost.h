// The memory that a job needs on its machines: upper bounds from the plan, for `tern check`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "setup/setup.h"

namespace tern::tools {

struct CostLine {
  std::string what;
  uint64_t bytes = 0;
  std::string note;  // how it is composed
};

// A worker, without its images and oneDNN's own memory.
std::vector<CostLine> WorkerCost(const setup::Setup& setup);
// A server shard, when every worker is as far ahead as it can be.
std::vector<CostLine> ServerCost(const setup::Setup& setup, uint32_t shard);

}  // namespace tern::tools
