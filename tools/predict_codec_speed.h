// How fast a codec goes on this machine with the job's own model, for `tern predict`: whole rounds
// of two workers and the servers on one thread, through what workers and servers use.
#pragma once

#include <string>

#include "common/base/status.h"
#include "tools/predict_profile.h"

namespace tern::tools {

// Of the codec that `name` is in this job, all tensors by it; goes into profile->codecs under the
// name that the codec itself has.
Status MeasureCodec(const setup::Setup& setup, const std::string& name, Profile* profile);

// The optimizer alone and a plain copy: seconds an element.
Status MeasureUpdate(const setup::Setup& setup, Profile* profile);

}  // namespace tern::tools
