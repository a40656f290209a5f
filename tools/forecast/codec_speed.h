// Measures how fast a codec is on this machine with the job's own model, for `tern forecast`. One
// thread runs whole rounds of two workers and the servers, with the code that workers and servers
// run.
#pragma once

#include <string>

#include "common/base/status.h"
#include "tools/forecast/profile.h"

namespace tern::tools {

// Measures the codec `name` with all tensors of this job; stores the result in profile->codecs
// under codec::Codec::name(). Does nothing if the profile already has this codec.
Status MeasureCodec(const setup::Setup& setup, const std::string& name, Profile* profile);

// Measures the optimizer without decoding (with the moving average, if the job keeps one), and a
// plain copy of the parameters. Stores both in `profile`, in seconds per element.
Status MeasureUpdate(const setup::Setup& setup, Profile* profile);

}  // namespace tern::tools
