// What a job takes of the machines that it runs on: bounds from the plan, for `tern check`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/setup/setup.h"

namespace tern::tools {

struct CostLine {
  std::string what;
  uint64_t bytes = 0;
  std::string note;  // how it comes about
};

// A worker, without its images and what oneDNN takes for itself.
std::vector<CostLine> WorkerCost(const setup::Setup& setup);
// A server shard, with every worker as far ahead as it may be.
std::vector<CostLine> ServerCost(const setup::Setup& setup, uint32_t shard);

}  // namespace tern::tools
