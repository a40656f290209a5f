#include "tests/worker/engine/device_under_test.h"

namespace tern::engine {

Device DeviceUnderTest() { return Device::kCpu; }

}  // namespace tern::engine
