// Translates the codec keys of a job to codec::Options.
#pragma once

#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace tern::protocol {

codec::Options CodecOptions(const pb::Job& job);

// Whether the workers, and not the servers, compute the term that the algorithm adds to a gradient
// (Facts::WorkersFormTerm; for example the compensation of dcasgd). The answer depends on every
// codec that the job names for pushes, even if a codec's rule matches no tensor. Servers and
// workers both call this, and must agree. REQUIRES an algorithm with such a term.
bool WorkersFormTerm(const pb::Job& job);

}  // namespace tern::protocol
