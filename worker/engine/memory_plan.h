// Shares one arena among buffers with disjoint lifetimes.
#pragma once

#include <cstddef>
#include <vector>

namespace tern::engine {

class MemoryPlan {
 public:
  // The alignment of CUDA's own allocations, which its libraries assume; also enough for a cache
  // line and for the widest vector.
  static constexpr size_t kAlignment = 256;

  // Adds a buffer that no step uses yet; returns its number.
  int Add(size_t bytes);
  // Keeps the buffer intact at step `time`: it lives from its first use to its last, inclusive.
  void Use(int buffer, int time);
  // Assigns offsets to all used buffers; returns the size of the arena. REQUIRES no Add or Use
  // after it.
  size_t AssignOffsets();
  // The buffer's offset. REQUIRES AssignOffsets before.
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
