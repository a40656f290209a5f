// How an ExchangePlan cuts the arena (the array of all parameters) into buckets, and tensors into
// parts. plan.h says what they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/protocol/plan/bucket.h"

namespace tern::protocol {

// The tensors of the arena, in order: the members of ExchangePlan with these names.
struct TensorsOfArena {
  const std::vector<uint64_t>&tensor_begin, &tensor_count, &column;
  const std::vector<const codec::Codec*>& codec_of;

  uint64_t parameters() const { return tensor_begin.back() + tensor_count.back(); }
};

// Returns the largest position in the arena, at most `at`, that is not inside a group of elements
// that their tensor's codec must code together.
uint64_t CutBefore(const TensorsOfArena& tensors, uint64_t at);

// Returns buckets of whole tensors, from the last to the first. Starts a new bucket if the next
// tensor would make the present bucket larger than `limit` elements.
std::vector<Bucket> CutBuckets(const TensorsOfArena& tensors, uint64_t limit);
// Returns `num_parts` buckets: ranges of the arena whose sizes differ by at most one element, but
// that begin where CutBefore allows it. `key`: the job's key that sets `num_parts`, for the error
// message. kBadJob if a bucket would be empty.
Result<std::vector<Bucket>> CutRanges(const TensorsOfArena& tensors, uint64_t num_parts,
                                      const std::string& key);

// The parts of all tensors, and by tensor the index of its first part. The last entry of
// `first_part` is the number of parts.
struct PartsOfTensors {
  std::vector<Part> parts;
  std::vector<uint32_t> first_part;
};
// Cuts each tensor into parts, which are the ranges that have one scaler each: where the codec asks
// for it, and where buckets begin.
PartsOfTensors CutParts(const TensorsOfArena& tensors, const std::vector<Bucket>& buckets);

}  // namespace tern::protocol
