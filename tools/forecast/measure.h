// Measures a Profile on this machine, in about 20 seconds.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "tools/forecast/profile.h"

namespace tern::tools {

// Measures forward, backward and update of the model of `setup`, a message, and the codecs of all
// `variants`, which are setups of the same job with other codecs or algorithms.
Result<Profile> MeasureProfile(const setup::Setup& setup,
                               const std::vector<const setup::Setup*>& variants);

}  // namespace tern::tools
