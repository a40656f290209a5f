// Measures how fast a codec is on this machine with the job's own model, for `tern predict`: whole
// rounds of two workers and the servers on one thread, with the code of workers and servers.
#pragma once

#include <string>

#include "common/base/status.h"
#include "tools/forecast/profile.h"

namespace tern::tools {

// Measures the codec `name`, used for all tensors of this job; the result goes into profile->codecs
// under the codec's own name.
Status MeasureCodec(const setup::Setup& setup, const std::string& name, Profile* profile);

// Measures the optimizer alone and a plain copy: seconds per element.
Status MeasureUpdate(const setup::Setup& setup, Profile* profile);

}  // namespace tern::tools
