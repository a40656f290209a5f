// The answers of the servers, by round, until they are taken; and their way back to numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/setup/setup.h"
#include "worker/train/port.h"

namespace tern::train {

class Sums {
 public:
  // `setup` outlives it.
  explicit Sums(const setup::Setup& setup) : setup_(setup) {}

  // Scalers and sums (or weights), of any round, in any order.
  void Put(const Answer& answer);
  // Whether all chunks of `bucket` in `round` have come, with the scalers that they are read with;
  // of all buckets.
  bool Has(uint64_t round, uint32_t bucket) const;
  bool Has(uint64_t round) const;
  // From the answers of a round that named one (those of shard 0); 0 before the first of them.
  double learning_rate(uint64_t round) const;
  bool has_learning_rate(uint64_t round) const;

  // Calls use(first, values) for the elements [first, first + values.size()) of the arena, in
  // pieces that lie in one tensor and in a cache: the mean over the contributors or, from a
  // server that holds the parameters, what it sent (weights or changes). Nothing for a chunk that
  // nobody contributed to. kMismatch for an answer that cannot be one. REQUIRES Has(round, bucket).
  using Use = std::function<void(uint32_t tensor, uint64_t first, std::span<const float> values)>;
  Status Decode(uint64_t round, uint32_t bucket, const Use& use) const;
  // Of all buckets.
  Status Decode(uint64_t round, const Use& use) const;
  // The sums themselves, chunk by chunk; nothing for one that nobody contributed to.
  struct Opened {
    std::span<const uint8_t> sums;  // segment after segment, codec.h
    std::vector<float> scalers;     // by segment; 0 where none is shared
    int contributors = 0;
  };
  using UseSums = std::function<Status(const protocol::Chunk& chunk, const Opened& opened)>;
  Status OpenSums(uint64_t round, uint32_t bucket, const UseSums& use) const;

  // From servers that hold the parameters: puts what they sent, weights or changes, into w.
  // REQUIRES Has(round).
  Status Install(uint64_t round, float* w) const;

  // Answers to pulls stand apart, as round kPulled, with the newest clock of this rank that a
  // server has counted.
  static constexpr uint64_t kPulled = 0;
  uint64_t counted_clock() const { return counted_clock_; }
  void DropPulled() { rounds_.erase(kPulled); }

  // What the shared parts of the bucket are coded with in a round that takes it from a round before
  // (plan.scalers_from). REQUIRES that one known: it has been applied.
  std::vector<float> ScalersFromBefore(uint64_t round, uint32_t bucket) const;
  // The scalers that the rounds after `applied` will be coded with, to save, and to restore: an
  // array a round, newest first; none where rounds need none of those before.
  std::vector<std::vector<float>> SaveScalers(uint64_t applied) const;
  void RestoreScalers(uint64_t applied, const std::vector<std::vector<float>>& saved);

  // Lets the rounds up to `round` go.
  void Drop(uint64_t round);
  // All of them.
  void Clear() {
    rounds_.clear();
    largest_.clear();
  }

 private:
  struct Part {
    bool here = false;
    bool whole = false;  // weights in fp32, whatever the codec
    uint32_t contributors = 0;
    Bytes payload;
  };
  struct Bucket {
    std::vector<float> scalers;  // of its shared parts, in order
    bool scaled = false;         // they are here
    std::vector<Part> parts;     // by chunk
    size_t here = 0;
  };
  struct Round {
    std::map<uint32_t, Bucket> buckets;
    std::optional<double> learning_rate;
  };

  const Bucket& BucketOf(uint64_t round, uint32_t bucket) const {
    return rounds_.at(round).buckets.at(bucket);
  }
  // `scalers`: of the bucket's shared parts. Without contributors where nothing has changed.
  Result<Opened> OpenChunk(const protocol::Chunk& chunk, const std::vector<float>& scalers,
                           const Part& part) const;
  Status DecodeChunk(const protocol::Chunk& chunk, const std::vector<float>& scalers,
                     const Part& part, const Use& use) const;
  // Of the bucket's shared parts, in order; empty where none came.
  std::vector<float> ScalersOf(uint64_t round, uint32_t bucket) const;
  void KeepLargest(const Answer& answer);

  const setup::Setup& setup_;
  std::map<uint64_t, Round> rounds_;
  // The workers' largest scalers, as they came along with sums: by round and bucket.
  std::map<uint64_t, std::map<uint32_t, std::vector<float>>> largest_;
  uint64_t counted_clock_ = 0;
};

}  // namespace tern::train
