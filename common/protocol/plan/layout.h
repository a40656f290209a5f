// How an exchange plan divides the model over the server shards.
#pragma once

#include <cstdint>

#include "common/protocol/plan/plan.h"

namespace tern::protocol {

// A digest of the numbers of shards and of their data lanes, and of which chunk each lane has. Two
// plans of one model and the same codecs have the same digest if what a lane keeps from round to
// round fits both, whatever the number of workers.
uint64_t LayoutDigest(const ExchangePlan& plan);

}  // namespace tern::protocol
