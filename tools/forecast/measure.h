// Measures a Profile on this machine, in about 20 seconds.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "tools/forecast/profile.h"

namespace tern::tools {

// Measures the model and the compute of `setup`, and the codecs of all `ways` to train it; `ways`
// may or may not include the setup itself.
Result<Profile> MeasureProfile(const setup::Setup& setup,
                               const std::vector<const setup::Setup*>& ways);

}  // namespace tern::tools
