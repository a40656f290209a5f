// Adds up what the processes of one rank have counted.
#pragma once

#include "proto/counters.pb.h"

namespace tern::protocol {

// Adds the counts and times in `more` to *sum. Leaves in *sum what tells the state of one process:
// its loss, its steps, its newest checkpoint, the progress of its evaluation, and its machine.
void AddCounters(const pb::Counters& more, pb::Counters* sum);

}  // namespace tern::protocol
