// Measures a Profile on this machine, in some 20 seconds.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "tools/predict_profile.h"

namespace tern::tools {

// Of the model and the compute of `setup`; of the codecs of all `ways` to train it, the setup's own
// included or not.
Result<Profile> MeasureProfile(const setup::Setup& setup,
                               const std::vector<const setup::Setup*>& ways);

}  // namespace tern::tools
