// ExchangePlan: which elements of the model travel in which message, to which lane (socket) of
// which server shard.
// A pure function of the job and the parameter table, so every daemon computes the same plan;
// hellos carry its digest.
//
// The arena is the array of all parameters in canonical order. A bucket is a contiguous range of
// the arena that consists of whole tensors, up to a size; bucket 0 has the last tensors, because
// their gradients are ready first. (In rsgd, bucket i is the i-th of p equal ranges of the arena,
// and may end inside a tensor.) A chunk is a range of a bucket that is coded as one message; it
// belongs to one data lane of one shard. A part is the range that has one scaler: a tensor, or a
// fixed number of its elements if the codec asks for that. A chunk consists of segments; a segment
// lies within one part and is coded with its tensor's codec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace tern::protocol {

// One parameter tensor of the model. Lists of tensors are in the order of the arena.
struct TensorInfo {
  std::string name;
  uint64_t count = 0;
  uint64_t column = 1;  // number of neighbouring elements that belong to one output of its layer
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
  std::vector<uint32_t> part_of;  // by segment: its part in ExchangePlan::parts
  // With `scaler: previous`, the first chunk of a bucket also carries the bucket's scalers, before
  // its segments, in pushes and in answers. This is their number; 0 in other chunks.
  size_t scalers = 0;
  uint32_t shard = 0;
  uint32_t lane = 0;          // which data lane of that shard, counted from 1
  size_t max_push_bytes = 0;  // upper bound of the bytes of one worker's push
  // The same for an answer, which is the sum over all workers or, with central parameters, weights
  size_t max_sum_bytes = 0;
};

struct Bucket {
  uint64_t begin = 0, count = 0;
  uint32_t first_tensor = 0, tensors = 0;  // the tensors that have elements in the bucket
  uint32_t first_part = 0, parts = 0;      // all parts of those tensors
  // Parts whose scalers are shared between workers, in order. Empty: the bucket has no Scale
  // message.
  std::vector<uint32_t> shared;
  uint32_t home = 0;  // the shard of the first chunk, to which the Scale message goes
  // 0: the bucket has parameters. k: it has elements of the optimizer's k-th state array.
  uint32_t arena = 0;
  std::vector<Chunk> chunks;
};

struct ExchangePlan {
  uint32_t workers = 0;
  uint64_t seed = 0;                 // the job's
  std::vector<uint32_t> data_lanes;  // by shard: how many it has
  std::vector<uint64_t> tensor_begin;
  std::vector<uint64_t> tensor_count;
  std::vector<uint64_t> column;               // by tensor: TensorInfo::column
  std::vector<const codec::Codec*> codec_of;  // by tensor
  std::vector<Part> parts;                    // in order of the arena
  // By tensor; one more entry marks the end of the last tensor's parts
  std::vector<uint32_t> first_part;
  // If not 0: round r is coded with scaler_margin times the maximum scalers of round r -
  // scalers_from. If 0, and in the first scalers_from rounds: workers share their scalers within
  // the round (Kind::kScale).
  uint32_t scalers_from = 0;
  float scaler_margin = 1;
  bool central = false;  // servers hold the parameters
  bool rounds = true;    // false: every push is applied and answered on arrival (ClockLane)
  // With central parameters: the codec of the weights that servers send to workers. Its code is one
  // sender's, not a sum.
  const codec::Codec* pull_codec = nullptr;
  std::vector<Bucket> buckets;
  uint64_t digest = 0;
  // Number of floats in a worker's figures: batch norms' running statistics
  uint64_t statistics = 0;
  uint64_t confusion = 0;  // number of entries of the confusion matrix in its last figures

  // An upper bound of the bytes of one worker's serialized Figures.
  size_t max_figures_bytes() const { return 1024 + statistics * sizeof(float) + confusion * 5; }
  const Chunk& chunk(uint32_t bucket, uint32_t index) const {
    return buckets[bucket].chunks[index];
  }
  // Whether workers share their scalers within this round, before they push.
  bool shares_before(uint64_t round) const { return scalers_from == 0 || round <= scalers_from; }
  // By tensor: the buckets that have elements of it.
  std::vector<std::vector<uint32_t>> BucketsOfTensors() const;
  // The index of a chunk when the chunks of all buckets are numbered in order.
  uint32_t ChunkIndex(const Chunk& chunk) const;
  uint64_t parameters() const {
    return tensor_begin.empty() ? 0 : tensor_begin.back() + tensor_count.back();
  }

  std::vector<std::shared_ptr<const codec::Codec>> codecs;  // owns what codec_of points at

  // kBadJob for an unknown codec or an impossible combination.
  // `slots`: the number of optimizer state arrays that travel with the parameters; each has one
  // element per parameter.
  static Result<ExchangePlan> Make(const pb::Job& job, const std::vector<TensorInfo>& tensors,
                                   uint32_t slots = 0);
};

// Payload bytes of one round. `tern check` prints them, and sockets refuse larger payloads.
struct RoundBytes {
  uint64_t push = 0;     // upper bound of the bytes that one worker pushes
  uint64_t sum = 0;      // upper bound of the bytes that one worker gets as answers to its pushes
  uint64_t scalers = 0;  // bytes of the scalers that one worker sends, and again receives
  uint64_t largest_payload = 0;  // of any one message
};
RoundBytes CountRoundBytes(const ExchangePlan& plan);

}  // namespace tern::protocol
