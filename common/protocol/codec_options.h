// Translates a job's codec keys to codec::Options.
#pragma once

#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace tern::protocol {

codec::Options CodecOptions(const pb::Job& job);

}  // namespace tern::protocol
