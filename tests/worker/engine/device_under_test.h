// The backend under test: the same tests run on each.
#pragma once

#include "worker/engine/net.h"

namespace tern::engine {

Device DeviceUnderTest();

}  // namespace tern::engine
