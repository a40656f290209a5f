#include <gtest/gtest.h>

#include "tests/worker/engine/device_under_test.h"
#include "worker/device/device.h"

namespace tern::engine {
namespace {

class Gpu : public testing::Environment {
  void SetUp() override {
    const Status found = device::FindDevice();
    if (!found.ok()) GTEST_SKIP() << "there is no GPU here: " << found.message();
  }
};
const testing::Environment* const kGpu = testing::AddGlobalTestEnvironment(new Gpu);

}  // namespace

Device DeviceUnderTest() { return Device::kCuda; }

}  // namespace tern::engine
