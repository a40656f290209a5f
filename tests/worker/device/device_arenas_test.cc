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
  const float first_weight = replica->parameters()[0];
  EXPECT_EQ(device.weights[0], first_weight);
  const Bytes checkpoint = client::ReplicaState(*job, *replica).Save(0);

  ASSERT_TRUE(replica->arenas().ResetToGlobal().ok()) << "something changes there";
  device.weights[0] = first_weight + 1;
  device.copy_status = Status(Code::kPeerLost, "it has fallen off the bus");
  const std::string weights_path = testing::TempDir() + "/tern_weights_of_device";
  EXPECT_EQ(client::ReplicaState(*job, *replica).WriteWeights(weights_path, 1).code(),
            Code::kPeerLost)
      << "nothing stale is written";
  EXPECT_EQ(replica->CopyToHost().code(), Code::kPeerLost);
  device.copy_status = Ok();
  ASSERT_TRUE(replica->CopyToHost().ok()) << "they are still newer there";
  EXPECT_EQ(replica->parameters()[0], first_weight + 1);

  ASSERT_TRUE(client::ReplicaState(*job, *replica).Load(checkpoint).ok());
  EXPECT_EQ(device.weights[0], first_weight) << "what is loaded goes there";
}

}  // namespace
}  // namespace tern::device
