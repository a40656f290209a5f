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
  b.first = b.first < 0 ? time : std::min(b.first, time);
  b.last = std::max(b.last, time);
}

// Places the largest buffers first, each at the lowest offset that is free during its whole
// lifetime.
size_t MemoryPlan::AssignOffsets() {
  std::vector<int> order(buffers_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return buffers_[a].bytes > buffers_[b].bytes; });
  std::vector<int> placed;  // by offset
  size_t arena = 0;
  for (int i : order) {
    Buffer& buffer = buffers_[i];
    if (buffer.first < 0) continue;
    size_t offset = 0;
    for (int j : placed) {
      const Buffer& other = buffers_[j];
      if (other.last < buffer.first || buffer.last < other.first) continue;
      if (offset + buffer.bytes <= other.offset) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    buffer.offset = offset;
    const auto after = std::upper_bound(placed.begin(), placed.end(), offset,
                                        [&](size_t o, int j) { return o < buffers_[j].offset; });
    placed.insert(after, i);
    arena = std::max(arena, offset + buffer.bytes);
  }
  return arena;
}

}  // namespace tern::engine
