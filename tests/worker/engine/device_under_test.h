// The device on which the engine's tests run. Each test program defines DeviceUnderTest once.
#pragma once

#include "worker/engine/net.h"

namespace tern::engine {

Device DeviceUnderTest();

}  // namespace tern::engine
