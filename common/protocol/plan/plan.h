// ExchangePlan: which elements of the model travel in which message, to which lane (socket) of
// which server shard. The plan is a pure function of the job and the parameter table, so every
// daemon computes the same plan. Hellos carry the plan's digest.
//
// The arena is the array of all parameters in canonical order. A bucket is a contiguous range of
// the arena that consists of whole tensors, up to a size; bucket 0 has the last tensors, because
// their gradients are ready first. (In rsgd, bucket i is the i-th of p nearly equal ranges of the
// arena, and may end inside a tensor.) A chunk is a range of a bucket that is coded as one message;
// it belongs to one data lane of one shard. A scaler is a codec's scale factor. A part is the range
// that has one scaler: a tensor, or a fixed number of its elements if the codec asks for that. A
// chunk consists of segments; a segment lies within one part and is coded with its tensor's codec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/protocol/plan/bucket.h"
#include "proto/job.pb.h"

namespace tern::protocol {

// One parameter tensor of the model. Lists of tensors are in the order of the arena.
struct TensorInfo {
  std::string name;
  uint64_t count = 0;
  uint64_t column = 1;  // how many consecutive elements belong to one output of the tensor's layer
};

// With `security: curve`, no chunk has a larger payload, in bytes, except where a codec codes more
// elements together: libzmq encrypts 0.66 to 0.75 GB/s in messages of 64 to 256 KiB, and 0.48 GB/s
// in messages of 1 MiB.
inline constexpr uint64_t kMaxEncryptedPayload = 256 << 10;

struct ExchangePlan {
  uint32_t workers = 0;
  uint64_t seed = 0;                          // the job's random seed
  std::vector<uint32_t> data_lanes;           // by shard: how many data lanes it has
  std::vector<uint64_t> tensor_begin;         // by tensor: its first element in the arena
  std::vector<uint64_t> tensor_count;         // by tensor: the number of its elements
  std::vector<uint64_t> column;               // by tensor: TensorInfo::column
  std::vector<const codec::Codec*> codec_of;  // by tensor: its codec
  std::vector<Part> parts;                    // in order of the arena
  // By tensor: the index of its first part in `parts`. The last entry is the number of all parts.
  std::vector<uint32_t> first_part;
  // If not 0, round r is coded with scaler_margin times the workers' maximum scalers of round r -
  // scaler_age_rounds. If 0, and in the first scaler_age_rounds rounds, the workers share their
  // scalers within the round before they push (Kind::kScale).
  uint32_t scaler_age_rounds = 0;
  float scaler_margin = 1;
  float max_scaler = 1e6f;     // a greater scaler is invalid
  bool sums_on_hosts = false;  // exchange.host_sum: workers of one host may add up their pushes
  bool is_central = false;     // servers hold the parameters
  bool has_rounds = true;      // false: each push counts by itself, on arrival (ClockLane)
  // If servers hold the parameters: the codec of the weights, or changes of weights, that servers
  // send to workers. It codes the values of one sender, not a sum over workers.
  const codec::Codec* pull_codec = nullptr;
  // Whether a worker pulls the weights before it pushes (WorkersFormTerm), besides those that
  // answer its push: then it gets them twice a round.
  bool pulls_first = false;
  std::vector<Bucket> buckets;
  uint64_t digest = 0;
  // Figures are the metrics that workers exchange. `num_statistics`: how many floats the running
  // statistics of batch norms have in a worker's figures. `num_confusion_entries`: how many entries
  // the confusion matrix has in a worker's last figures.
  uint64_t num_statistics = 0;
  uint64_t num_confusion_entries = 0;

  // An upper bound of the bytes of one worker's serialized Figures.
  size_t max_figures_bytes() const {
    return 1024 + num_statistics * sizeof(float) + num_confusion_entries * 5;
  }
  const Chunk& chunk(uint32_t bucket, uint32_t index) const {
    return buckets[bucket].chunks[index];
  }
  // Whether workers share their scalers within this round, before they push.
  bool shares_before(uint64_t round) const {
    return scaler_age_rounds == 0 || round <= scaler_age_rounds;
  }
  // By tensor: the buckets that have elements of it.
  std::vector<std::vector<uint32_t>> BucketsOfTensors() const;
  // The index of a chunk when the chunks of all buckets are numbered in order.
  uint32_t ChunkIndex(const Chunk& chunk) const;
  // The number of parameters of the model.
  uint64_t parameters() const {
    return tensor_begin.empty() ? 0 : tensor_begin.back() + tensor_count.back();
  }

  // Owns the codecs to which codec_of and pull_codec point.
  std::vector<std::shared_ptr<const codec::Codec>> codecs;

  // Makes the plan of a job. kBadJob for an unknown codec or an impossible combination.
  // `num_slots`: the number of optimizer state arrays that travel with the parameters; each has one
  // element per parameter.
  static Result<ExchangePlan> Make(const pb::Job& job, const std::vector<TensorInfo>& tensors,
                                   uint32_t num_slots = 0);
};

// Payload bytes of one round.
struct RoundBytes {
  uint64_t push = 0;     // upper bound of the bytes that one worker pushes
  uint64_t sum = 0;      // upper bound of the bytes that one worker gets as answers to its pushes
  uint64_t pulled = 0;   // upper bound of the bytes that it pulls before it pushes
  uint64_t scalers = 0;  // bytes of the scalers that one worker sends; it receives as many
  uint64_t largest_payload = 0;  // upper bound of the bytes of one push or one answer
};
RoundBytes CountRoundBytes(const ExchangePlan& plan);

}  // namespace tern::protocol
