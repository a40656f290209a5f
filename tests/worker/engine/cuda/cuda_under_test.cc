#include <gtest/gtest.h>

#include "tests/worker/engine/device_under_test.h"
#include "worker/device/device.h"

namespace tern::engine {
namespace {

class GpuEnvironment : public testing::Environment {
  void SetUp() override {
    const Status gpu_status = device::CheckDevice();
    if (!gpu_status.ok()) GTEST_SKIP() << "there is no GPU here: " << gpu_status.message();
  }
};
const testing::Environment* const kGpuEnvironment =
    testing::AddGlobalTestEnvironment(new GpuEnvironment);

}  // namespace

Device DeviceUnderTest() { return Device::kCuda; }

}  // namespace tern::engine
