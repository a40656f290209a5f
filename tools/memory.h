// Upper bounds of the memory that a job needs on its machines, from the exchange plan, for `tern
// check`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "setup/setup.h"

namespace tern::tools {

struct MemoryItem {
  std::string what;
  uint64_t bytes = 0;
  std::string note;  // what the bytes consist of
};

// The memory of a worker, without its images and oneDNN's own buffers.
std::vector<MemoryItem> WorkerMemory(const setup::Setup& setup);
// The memory of a server shard if every worker is as far ahead as the protocol allows.
std::vector<MemoryItem> ServerMemory(const setup::Setup& setup, uint32_t shard);

}  // namespace tern::tools
