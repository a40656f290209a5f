// A parallel loop over indices.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/threads.h"

namespace tern::data {

// Calls body(i) once for each i in [begin, end), on at most `threads` threads including the
// caller's, in no particular order; returns when all calls are done.
inline void ParallelFor(uint64_t begin, uint64_t end, uint32_t threads,
                        const std::function<void(uint64_t)>& body) {
  std::atomic<uint64_t> next_index{begin};
  const auto run_bodies = [&] {
    for (uint64_t i = next_index.fetch_add(1); i < end; i = next_index.fetch_add(1)) body(i);
  };
  std::vector<Thread> helpers;
  for (uint32_t t = 1; t < threads && t < end - begin; ++t)
    helpers.emplace_back("scan", run_bodies);
  run_bodies();
}

}  // namespace tern::data
