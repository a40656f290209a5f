// The failpoints (failpoint.h) of this process that are on.
#pragma once

#include <vector>

#include "common/base/failpoint_flag.h"

namespace tern {

// Switches on exactly these failpoints, and counts how often their places are reached from here on.
// Any thread may call it.
void ArmFailpoints(std::vector<Failpoint> failpoints);

}  // namespace tern
