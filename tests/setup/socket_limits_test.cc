// Tests of the limits of a job's sockets.
#include "setup/socket_limits.h"

#include <gtest/gtest.h>

#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

size_t NumChunks(const Setup& setup) {
  size_t num_chunks = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets) num_chunks += bucket.chunks.size();
  return num_chunks;
}

TEST(MaxQueuedMessages, AreTwiceWhatAWorkerCanLeaveUnread) {
  const auto setup = SmallSetup();
  // For each chunk: 4 rounds, the weights and their average.
  EXPECT_EQ(MaxQueuedMessages(*setup, 0, 1), static_cast<int>(2 * 6 * NumChunks(*setup) + 64));
  EXPECT_LT(MaxQueuedMessages(*setup, 0, 0), 2000);
}

TEST(MaxQueuedMessages, AreMoreIfRoundsCloseWithoutSomeWorkers) {
  const auto setup = SmallSetup({"faults.on_worker_loss=shrink"});
  EXPECT_EQ(MaxQueuedMessages(*setup, 0, 1), static_cast<int>(2 * 19 * NumChunks(*setup) + 64));
}

}  // namespace
}  // namespace tern::setup
