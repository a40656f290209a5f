// How much the system lets a process of this machine have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tern {

// The limits of the control groups (cgroups) in which this process is: the smallest of the group
// and those above it. Nullopt: no limit.
struct GroupLimits {
  std::optional<uint64_t> memory_bytes;
  std::optional<double> cpus;  // CPU-seconds a second
};
// Reads cgroups of both versions. `root` stands for "/" in tests.
GroupLimits ReadGroupLimits(const std::string& root = "");

// How many bytes the kernel says that new processes may use without swapping; 0 if it does not.
uint64_t AvailableMemory();

// More bytes than these this process cannot have: the smallest of AvailableMemory, the limit of its
// control groups, and that of its address space (`ulimit -v`). Nullopt: the system does not say.
std::optional<uint64_t> MemoryRoom();

}  // namespace tern
