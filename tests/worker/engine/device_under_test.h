// Which backend a program's tests are of: they are the same for all.
#pragma once

#include "worker/engine/net.h"

namespace tern::engine {

Device DeviceUnderTest();

}  // namespace tern::engine
