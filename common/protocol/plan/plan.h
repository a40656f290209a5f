// ExchangePlan: which messages carry which elements, and where they go. A pure function of the
// parameter table and the job, the same on every peer; its digest is in the hello.
//
// A bucket is whole neighbouring tensors (so a contiguous range of the arena) up to a size; bucket
// 0 holds the last tensors, whose gradients are ready first. (rsgd: bucket i is the i-th of p equal
// parts of the arena, which may end inside a tensor.) A chunk is a fixed range of a bucket, coded
// on its own, and belongs to one shard and one of its data lanes. A part is the range of one
// scaler: a tensor, or a fixed number of its elements if the codec wants that. A chunk is a row of
// segments, each within a part and with its tensor's codec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace tern::protocol {

// One parameter tensor, in arena order.
struct TensorInfo {
  std::string name;
  uint64_t count = 0;
  uint64_t column = 1;  // neighbours per output of its layer
};

// Elements [begin, begin + count) of the tensor.
struct Part {
  uint32_t tensor = 0;
  uint64_t begin = 0, count = 0;
};

struct Chunk {
  uint32_t bucket = 0, index = 0;
  uint64_t begin = 0, count = 0;  // elements of the arena
  std::vector<codec::Segment> segments;
  std::vector<uint32_t> part_of;  // by segment
  // How many scalers precede the segments, up and down (scaler: previous): those of the bucket, in
  // its first chunk.
  size_t scalers = 0;
  uint32_t shard = 0;
  uint32_t lane = 0;  // 1..data sockets of the shard
  size_t max_push_bytes = 0;
  size_t max_sum_bytes = 0;  // of an answer: the sum over all workers, or the weights (central)
};

struct Bucket {
  uint64_t begin = 0, count = 0;
  uint32_t first_tensor = 0, tensors = 0;  // tensors with elements in it
  uint32_t first_part = 0, parts = 0;      // all parts of those tensors
  std::vector<uint32_t>
      shared;          // parts whose scalers are shared, in order; empty: no Scale for this bucket
  uint32_t home = 0;   // shard of the Scale: that of the first chunk
  uint32_t arena = 0;  // 0: the model; k: the k-th state array of an optimizer whose state travels
  std::vector<Chunk> chunks;
};

struct ExchangePlan {
  uint32_t workers = 0;
  uint64_t seed = 0;                 // of the job
  std::vector<uint32_t> data_lanes;  // by shard
  std::vector<uint64_t> tensor_begin;
  std::vector<uint64_t> tensor_count;
  std::vector<uint64_t> column;               // by tensor, as TensorInfo's
  std::vector<const codec::Codec*> codec_of;  // by tensor
  std::vector<Part> parts;                    // in order of the arena
  std::vector<uint32_t> first_part;           // by tensor, and behind the last
  // Round r uses scaler_margin x the maximum scalers of round r - scalers_from. 0, and the first
  // scalers_from rounds: scalers are shared in the round itself (Kind::kScale).
  uint32_t scalers_from = 0;
  float scaler_margin = 1;
  bool central = false;  // servers hold the parameters
  bool rounds = true;    // false: every push is answered at once (ClockLane)
  // Central: codec of the weights sent to the workers, coded as by one sender.
  const codec::Codec* pull_codec = nullptr;
  std::vector<Bucket> buckets;
  uint64_t digest = 0;
  uint64_t statistics = 0;  // floats in a worker's figures: the statistics of batch norms
  uint64_t confusion = 0;   // counts in its last figures

  // The most bytes of one worker's figures.
  size_t max_figures_bytes() const { return 1024 + statistics * sizeof(float) + confusion * 5; }
  const Chunk& chunk(uint32_t bucket, uint32_t index) const {
    return buckets[bucket].chunks[index];
  }
  bool shares_before(uint64_t round) const { return scalers_from == 0 || round <= scalers_from; }
  // For each tensor, the buckets that have elements of it.
  std::vector<std::vector<uint32_t>> BucketsOfTensors() const;
  // The number of a chunk, counted over all buckets.
  uint32_t ChunkIndex(const Chunk& chunk) const;
  uint64_t parameters() const {
    return tensor_begin.empty() ? 0 : tensor_begin.back() + tensor_count.back();
  }

  std::vector<std::shared_ptr<const codec::Codec>> codecs;  // owns what codec_of points at

  // kBadJob for an unknown codec or an impossible combination.
  // `slots`: the number of the optimizer's state arrays, each as long as the model.
  static Result<ExchangePlan> Make(const pb::Job& job, const std::vector<TensorInfo>& tensors,
                                   uint32_t slots = 0);
};

// Sizes that `tern check` prints and that bound the sockets.
struct RoundBytes {
  uint64_t push = 0;     // at most, by one worker
  uint64_t sum = 0;      // at most, to one worker
  uint64_t scalers = 0;  // one way, one worker
  uint64_t largest_payload = 0;
};
RoundBytes CountRoundBytes(const ExchangePlan& plan);

}  // namespace tern::protocol
