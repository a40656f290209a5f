// Runs code in a child process with limited memory, to test that hostile input costs little.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TERN_TEST_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TERN_TEST_HAS_SANITIZER 1
#endif
#endif

namespace tern::test {

// Lets this process allocate at most `bytes` more bytes. Has no effect under the address and thread
// sanitizers, which reserve far more address space than they use.
inline void LimitMemory([[maybe_unused]] uint64_t bytes) {
#ifndef TERN_TEST_HAS_SANITIZER
  uint64_t num_pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lu", &num_pages) != 1) _exit(2);
  std::fclose(file);
  const rlim_t limit = num_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limits{limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) _exit(2);
#endif
}

// Expects that the expression is true in a process that can allocate at most `bytes` more bytes.
#define TERN_EXPECT_WITHIN_MEMORY(bytes, expression) \
  EXPECT_EXIT(                                       \
      {                                              \
        ::tern::test::LimitMemory(bytes);            \
        _exit((expression) ? 0 : 1);                 \
      },                                             \
      ::testing::ExitedWithCode(0), "")

}  // namespace tern::test
