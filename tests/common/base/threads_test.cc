#include "common/base/threads.h"

#include <gtest/gtest.h>

#include <new>

namespace tern {
namespace {

TEST(ThreadDeathTest, WithoutMemoryEndsTheProcessWithASentence) {
  EXPECT_EXIT(Thread("lane 1", [] { throw std::bad_alloc(); }), testing::ExitedWithCode(70),
              "thread lane 1: the system gave it no more memory");
}

}  // namespace
}  // namespace tern
