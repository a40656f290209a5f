// Selects the backend under test: the tests are the same for all.
#pragma once

#include "worker/engine/net.h"

namespace tern::engine {

Device DeviceUnderTest();

}  // namespace tern::engine
