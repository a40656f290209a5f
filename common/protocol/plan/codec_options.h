// Translates a job's codec keys to codec::Options.
#pragma once

#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace tern::protocol {

codec::Options CodecOptions(const pb::Job& job);

// Whether workers form the term that the algorithm adds to a gradient, and not the servers
// (Facts::WorkersFormTerm). It depends on all codecs that the job names for what is pushed, also on
// one whose rule matches no tensor. Servers and workers both call this. REQUIRES an algorithm with
// such a term.
bool WorkersFormTerm(const pb::Job& job);

}  // namespace tern::protocol
