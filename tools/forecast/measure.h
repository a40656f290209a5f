// Measures a Profile on this machine, in about 20 seconds.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "tools/forecast/profile.h"

namespace tern::tools {

// Measures the compute of `setup`, and the codecs of all `variants` of it.
Result<Profile> MeasureProfile(const setup::Setup& setup,
                               const std::vector<const setup::Setup*>& variants);

}  // namespace tern::tools
