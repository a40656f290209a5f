// Creates codecs by the names that job files use.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"

namespace tern::codec {

// The names of all codecs, in the order of the table in codecs.cc.
const std::vector<std::string>& CodecNames();
// Creates the codec called `name`. kBadJob if there is none, or if the options are invalid for it.
Result<std::unique_ptr<Codec>> MakeCodec(std::string_view name, const Options& options);

// Whether the codec called `name` has a form in which each worker has its own scalers
// (Options::scaler_per_worker), so that a code can be decoded without the other workers' codes.
bool CanDecodeAlone(std::string_view name);

// Whether a worker can encode with this codec on a GPU, and keep the codec's memory on the GPU,
// too. False for a codec to which Options::error_feedback has added a memory.
bool CanEncodeOnDevice(const Codec& codec);

}  // namespace tern::codec
