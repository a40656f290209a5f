// Translates the codec settings in a job's configuration to codec::Options.
#pragma once

#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace tern::protocol {

codec::Options CodecOptions(const pb::Job& job);

// Whether the workers, and not the servers, compute the term that the algorithm adds to a gradient
// (Facts::WorkersFormTerm), for example dcasgd's delay compensation. The answer depends on every
// codec that the job names for pushes, even on a codec whose rule matches no tensor. Servers and
// workers both call this function, and must get the same answer. REQUIRES an algorithm with such a
// term.
bool WorkersFormTerm(const pb::Job& job);

}  // namespace tern::protocol
