// Translates a job's codec keys to codec::Options.
#pragma once

#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace tern::protocol {

codec::Options CodecOptions(const pb::Job& job);

// Whether DC-ASGD's workers form the term (config::WorkersFormTerm). It depends on all codecs that
// the job names for what is pushed, also on one whose rule matches no tensor. Servers and workers
// both call this. REQUIRES dcasgd_c or dcasgd_a.
bool WorkersFormTerm(const pb::Job& job);

}  // namespace tern::protocol
