#include "worker/engine/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace tern::engine {
namespace {

TEST(MemoryPlan, SharesMemoryOfDisjointLifetimes) {
  MemoryPlan plan;
  const int a = plan.Add(1000), b = plan.Add(1000), c = plan.Add(1000);
  plan.Use(a, 0);
  plan.Use(a, 1);
  plan.Use(b, 1);
  plan.Use(b, 2);
  plan.Use(c, 2);
  EXPECT_EQ(plan.AssignOffsets(), 2 * 1024u);
  EXPECT_EQ(plan.OffsetOf(a), plan.OffsetOf(c));
  EXPECT_NE(plan.OffsetOf(a), plan.OffsetOf(b));
}

TEST(MemoryPlan, UnusedBuffersTakeNoMemory) {
  MemoryPlan plan;
  plan.Add(1000);
  EXPECT_EQ(plan.AssignOffsets(), 0u);
}

TEST(MemoryPlan, LiveBuffersNeverOverlap) {
  struct Buffer {
    int id;
    size_t bytes;
    int first, last;
  };
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return random() % n; };
  for (int round = 0; round < 200; ++round) {
    MemoryPlan plan;
    std::vector<Buffer> buffers;
    size_t sum = 0;
    for (uint32_t i = below(40) + 1; i > 0; --i) {
      Buffer b{0, below(5000) + 1, static_cast<int>(below(30)), 0};
      b.last = b.first + static_cast<int>(below(8));
      b.id = plan.Add(b.bytes);
      plan.Use(b.id, b.last);
      plan.Use(b.id, b.first);
      sum +=
          (b.bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
      buffers.push_back(b);
    }
    const size_t arena = plan.AssignOffsets();
    EXPECT_LE(arena, sum);
    for (const Buffer& a : buffers) {
      const size_t begin = plan.OffsetOf(a.id);
      EXPECT_EQ(begin % MemoryPlan::kAlignment, 0u);
      EXPECT_LE(begin + a.bytes, arena);
      for (const Buffer& b : buffers) {
        if (a.id == b.id || a.last < b.first || b.last < a.first) continue;
        const size_t other = plan.OffsetOf(b.id);
        EXPECT_TRUE(begin + a.bytes <= other || other + b.bytes <= begin);
      }
    }
  }
}

}  // namespace
}  // namespace tern::engine
