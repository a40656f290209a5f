// Plans how buffers share one block of memory, the arena: buffers that are not in use at the same
// time may overlap.
#pragma once

#include <cstddef>
#include <vector>

namespace tern::engine {

class MemoryPlan {
 public:
  // The alignment of all buffers, in bytes. CUDA's libraries assume that arrays are aligned like
  // CUDA's own allocations, to 256 bytes. This is enough for a cache line and for CPU vectors, too.
  static constexpr size_t kAlignment = 256;

  // Adds a buffer of `bytes` bytes; returns its number.
  int AddBuffer(size_t bytes);
  // Says that step number `step` uses the buffer. The contents of a buffer stay intact from the
  // first step that uses the buffer to the last.
  void RecordUse(int buffer, int step);
  // Assigns offsets to all buffers that a step uses; returns the size of the arena in bytes.
  // REQUIRES that neither AddBuffer nor RecordUse is called afterwards.
  size_t AssignOffsets();
  // The buffer's byte offset in the arena. REQUIRES that AssignOffsets was called.
  size_t OffsetOf(int buffer) const { return buffers_[buffer].offset; }

 private:
  struct Buffer {
    size_t bytes = 0;
    size_t offset = 0;
    int first_step = -1;  // The first and the last step that use the buffer; -1 if none does.
    int last_step = -1;
  };
  std::vector<Buffer> buffers_;
};

}  // namespace tern::engine
