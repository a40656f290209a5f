#include "worker/engine/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace tern::engine {
namespace {

size_t RoundUp(size_t bytes) {
  return (bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
}

}  // namespace

int MemoryPlan::Add(size_t bytes) {
  Buffer buffer;
  buffer.bytes = RoundUp(bytes);
  buffers_.push_back(buffer);
  return static_cast<int>(buffers_.size()) - 1;
}

void MemoryPlan::Use(int buffer, int time) {
  Buffer& b = buffers_[buffer];
  b.first_step = b.first_step < 0 ? time : std::min(b.first_step, time);
  b.last_step = std::max(b.last_step, time);
}

// Places the largest buffers first, each at the lowest offset that no buffer with an overlapping
// lifetime occupies.
size_t MemoryPlan::AssignOffsets() {
  std::vector<int> by_size(buffers_.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return buffers_[a].bytes > buffers_[b].bytes; });
  std::vector<int> placed;  // Buffers that have an offset, sorted by it.
  size_t arena_size = 0;
  for (int i : by_size) {
    Buffer& buffer = buffers_[i];
    if (buffer.first_step < 0) continue;
    size_t offset = 0;
    for (int j : placed) {
      const Buffer& other = buffers_[j];
      if (other.last_step < buffer.first_step || buffer.last_step < other.first_step) continue;
      if (offset + buffer.bytes <= other.offset) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    buffer.offset = offset;
    const auto after = std::upper_bound(placed.begin(), placed.end(), offset,
                                        [&](size_t o, int j) { return o < buffers_[j].offset; });
    placed.insert(after, i);
    arena_size = std::max(arena_size, offset + buffer.bytes);
  }
  return arena_size;
}

}  // namespace tern::engine
