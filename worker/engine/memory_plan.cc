#include "worker/engine/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace tern::engine {
namespace {

size_t RoundUp(size_t bytes) {
  return (bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
}

}  // namespace

int MemoryPlan::AddBuffer(size_t bytes) {
  Buffer buffer;
  buffer.bytes = RoundUp(bytes);
  buffers_.push_back(buffer);
  return static_cast<int>(buffers_.size()) - 1;
}

void MemoryPlan::RecordUse(int buffer, int step) {
  Buffer& used_buffer = buffers_[buffer];
  used_buffer.first_step =
      used_buffer.first_step < 0 ? step : std::min(used_buffer.first_step, step);
  used_buffer.last_step = std::max(used_buffer.last_step, step);
}

// Places the largest buffers first, each at the lowest offset that no buffer with an overlapping
// lifetime occupies.
size_t MemoryPlan::AssignOffsets() {
  std::vector<int> by_size(buffers_.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return buffers_[a].bytes > buffers_[b].bytes; });
  std::vector<int> placed_buffers;  // The buffers that have an offset, in the order of offsets.
  size_t arena_size = 0;
  for (int buffer_number : by_size) {
    Buffer& buffer = buffers_[buffer_number];
    if (buffer.first_step < 0) continue;
    size_t offset = 0;
    for (int placed_number : placed_buffers) {
      const Buffer& placed_buffer = buffers_[placed_number];
      if (placed_buffer.last_step < buffer.first_step ||
          buffer.last_step < placed_buffer.first_step)
        continue;
      if (offset + buffer.bytes <= placed_buffer.offset) break;
      offset = std::max(offset, placed_buffer.offset + placed_buffer.bytes);
    }
    buffer.offset = offset;
    const auto insert_position = std::upper_bound(
        placed_buffers.begin(), placed_buffers.end(), offset,
        [&](size_t o, int placed_number) { return o < buffers_[placed_number].offset; });
    placed_buffers.insert(insert_position, buffer_number);
    arena_size = std::max(arena_size, offset + buffer.bytes);
  }
  return arena_size;
}

}  // namespace tern::engine
