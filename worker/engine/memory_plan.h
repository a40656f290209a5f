// Shares one arena among buffers that do not live at the same time.
#pragma once

#include <cstddef>
#include <vector>

namespace tern::engine {

class MemoryPlan {
 public:
  // Of CUDA's own allocations, and what its libraries choose algorithms for; enough for a cache
  // line and the widest vector.
  static constexpr size_t kAlignment = 256;

  // A new buffer, not alive yet.
  int Add(size_t bytes);
  // It must be intact at step `time`: it lives from its first use to its last, both included.
  void Use(int buffer, int time);
  // Gives every used buffer its place; returns the size of the arena. REQUIRES no Add or Use after.
  size_t Place();
  // Where it begins. REQUIRES Place.
  size_t OffsetOf(int buffer) const { return buffers_[buffer].offset; }

 private:
  struct Buffer {
    size_t bytes = 0;
    size_t offset = 0;
    int first = -1;  // -1: never used
    int last = -1;
  };
  std::vector<Buffer> buffers_;
};

}  // namespace tern::engine
