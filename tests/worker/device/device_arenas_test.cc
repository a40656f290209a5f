#include "worker/device/device_arenas.h"

#include <gtest/gtest.h>

#include "client/train/replica_state.h"
#include "tests/client/train/train_job.h"
#include "tests/worker/device/memory_as_device.h"

namespace tern::device {
namespace {

TEST(DeviceArenas, BringCopiesWeightsToTheReplica) {
  const auto job = client::SmallJob();
  auto replica = std::move(*client::Replica::Make(*job));
  MemoryAsDevice device(job->table.total);
  ASSERT_TRUE(
      replica->MoveTo(std::make_unique<DeviceArenas>(*job, replica->host_values(), device)).ok());
  const float first = replica->parameters()[0];
  EXPECT_EQ(device.weights[0], first);
  const Bytes before = client::ReplicaState(*job, *replica).Save(0);

  ASSERT_TRUE(replica->arenas().ResetToGlobal().ok()) << "something changes there";
  device.weights[0] = first + 1;
  device.refuses = Status(Code::kPeerLost, "it has fallen off the bus");
  const std::string folder = testing::TempDir() + "/tern_weights_of_device";
  EXPECT_EQ(client::ReplicaState(*job, *replica).WriteWeights(folder, 1).code(), Code::kPeerLost)
      << "nothing stale is written";
  EXPECT_EQ(replica->CopyToHost().code(), Code::kPeerLost);
  device.refuses = Ok();
  ASSERT_TRUE(replica->CopyToHost().ok()) << "they are still newer there";
  EXPECT_EQ(replica->parameters()[0], first + 1);

  ASSERT_TRUE(client::ReplicaState(*job, *replica).Load(before).ok());
  EXPECT_EQ(device.weights[0], first) << "what is loaded goes there";
}

}  // namespace
}  // namespace tern::device
