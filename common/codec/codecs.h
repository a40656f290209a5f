// The codecs that a job may name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"

namespace tern::codec {

// In the order of the table in codecs.cc, to which a new codec adds one line.
const std::vector<std::string>& CodecNames();
// kBadJob, with the known names, if no codec is called `name`.
Result<std::unique_ptr<Codec>> MakeCodec(std::string_view name, const Options& options);

// Whether a worker can encode with this codec on a GPU, and keep the codec's memory there. False
// for a codec with added error feedback (error_feedback.h).
bool HasDeviceForm(const Codec& codec);

}  // namespace tern::codec
