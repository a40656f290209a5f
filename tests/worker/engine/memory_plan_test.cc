#include "worker/engine/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace tern::engine {
namespace {

TEST(MemoryPlan, SharesMemoryOfDisjointLifetimes) {
  MemoryPlan plan;
  const int a = plan.AddBuffer(1000), b = plan.AddBuffer(1000), c = plan.AddBuffer(1000);
  plan.RecordUse(a, 0);
  plan.RecordUse(a, 1);
  plan.RecordUse(b, 1);
  plan.RecordUse(b, 2);
  plan.RecordUse(c, 2);
  EXPECT_EQ(plan.AssignOffsets(), 2 * 1024u);
  EXPECT_EQ(plan.OffsetOf(a), plan.OffsetOf(c));
  EXPECT_NE(plan.OffsetOf(a), plan.OffsetOf(b));
}

TEST(MemoryPlan, UnusedBuffersTakeNoMemory) {
  MemoryPlan plan;
  plan.AddBuffer(1000);
  EXPECT_EQ(plan.AssignOffsets(), 0u);
}

TEST(MemoryPlan, LiveBuffersNeverOverlap) {
  struct Buffer {
    int id;
    size_t bytes;
    int first_step, last_step;
  };
  std::mt19937 random(5);
  const auto random_below = [&](uint32_t n) { return random() % n; };
  for (int trial = 0; trial < 200; ++trial) {
    MemoryPlan plan;
    std::vector<Buffer> buffers;
    size_t aligned_bytes = 0;
    for (uint32_t i = random_below(40) + 1; i > 0; --i) {
      Buffer buffer{0, random_below(5000) + 1, static_cast<int>(random_below(30)), 0};
      buffer.last_step = buffer.first_step + static_cast<int>(random_below(8));
      buffer.id = plan.AddBuffer(buffer.bytes);
      plan.RecordUse(buffer.id, buffer.last_step);
      plan.RecordUse(buffer.id, buffer.first_step);
      aligned_bytes += (buffer.bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment *
                       MemoryPlan::kAlignment;
      buffers.push_back(buffer);
    }
    const size_t arena_bytes = plan.AssignOffsets();
    EXPECT_LE(arena_bytes, aligned_bytes);
    for (const Buffer& buffer : buffers) {
      const size_t buffer_begin = plan.OffsetOf(buffer.id);
      EXPECT_EQ(buffer_begin % MemoryPlan::kAlignment, 0u);
      EXPECT_LE(buffer_begin + buffer.bytes, arena_bytes);
      for (const Buffer& other : buffers) {
        if (buffer.id == other.id || buffer.last_step < other.first_step ||
            other.last_step < buffer.first_step)
          continue;
        const size_t other_begin = plan.OffsetOf(other.id);
        EXPECT_TRUE(buffer_begin + buffer.bytes <= other_begin ||
                    other_begin + other.bytes <= buffer_begin);
      }
    }
  }
}

}  // namespace
}  // namespace tern::engine
