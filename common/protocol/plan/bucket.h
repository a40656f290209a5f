// Buckets, their chunks and their parts, of which an ExchangePlan consists. plan.h says what they
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/codec/codec.h"

namespace tern::protocol {

// Elements [begin, begin + count) of the tensor with the index `tensor`.
struct Part {
  uint32_t tensor = 0;
  uint64_t begin = 0, count = 0;
};

struct Chunk {
  uint32_t bucket = 0, index = 0;  // its bucket, and its index among the bucket's chunks
  uint64_t begin = 0, count = 0;   // elements of the arena
  std::vector<codec::Segment> segments;
  // By segment: the index of its part in ExchangePlan::parts.
  std::vector<uint32_t> part_of_segment;
  // The number of scalers that pushes and answers of this chunk carry before its segments. If
  // exchange.scaler is `previous`, the first chunk of a bucket carries the bucket's shared scalers.
  // All other chunks carry none.
  size_t num_scalers = 0;
  uint32_t shard = 0;
  uint32_t lane = 0;          // which data lane of that shard, counted from 1
  size_t max_push_bytes = 0;  // upper bound of the bytes of one worker's push
  // An upper bound of the bytes of an answer. The answer has the sum over all workers or, if
  // servers hold the parameters, weights or their change.
  size_t max_sum_bytes = 0;
};

struct Bucket {
  uint64_t begin = 0, count = 0;
  // Tensors [first_tensor, first_tensor + tensors) have elements in the bucket. The bucket consists
  // of the parts [first_part, first_part + parts).
  uint32_t first_tensor = 0, tensors = 0;
  uint32_t first_part = 0, parts = 0;
  // The bucket's parts whose scalers the workers share: ascending indices in ExchangePlan::parts.
  // If empty, the bucket needs no Scale message (the message that shares scalers).
  std::vector<uint32_t> shared_parts;
  // The shard of the bucket's first chunk. The bucket's Scale message goes to this shard.
  uint32_t home_shard = 0;
  // 0: the bucket has parameters. k > 0: it has elements of the optimizer's k-th state array.
  uint32_t arena_index = 0;
  std::vector<Chunk> chunks;
};

}  // namespace tern::protocol
