// How an exchange plan divides the model over the server shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/plan/bucket.h"

namespace tern::protocol {

// The numbers of the shards' data lanes, then where each bucket begins, then the range and the lane
// of each chunk: numbers, each after a space. Digests of plans are made of it, so it never changes.
std::string LayoutText(const std::vector<uint32_t>& data_lanes, const std::vector<Bucket>& buckets);

// A digest of the layout of a plan. Two plans of one model and the same codecs have the same digest
// if what a lane keeps from round to round fits both, whatever the number of workers.
uint64_t LayoutDigest(const std::vector<uint32_t>& data_lanes, const std::vector<Bucket>& buckets);

}  // namespace tern::protocol
