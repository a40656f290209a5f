// Estimates of the memory that a job needs on its machines, which `tern check` prints. A row whose
// note begins with "at most" is an upper bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "setup/setup.h"

namespace tern::tools {

struct MemoryItem {
  std::string name;  // What the memory holds.
  uint64_t bytes = 0;
  std::string note;  // Explains the bytes in words.
};

// Returns the memory of a worker, without its images, the buffers of oneDNN and of layers (such as
// transformed tiles of convolutions), and what the algorithm keeps beside a worker's own weights.
std::vector<MemoryItem> WorkerMemory(const setup::Setup& setup);
// Returns the memory of a server shard. Assumes that a worker has at most one open round, and that
// a round waits for all workers.
std::vector<MemoryItem> ServerMemory(const setup::Setup& setup, uint32_t shard);

}  // namespace tern::tools
