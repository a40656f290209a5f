// Stores the servers' answers by round until they are used, and decodes them. A bucket is a range
// of the model, a chunk a range of a bucket. An answer with scalers (codecs' scale factors) is for
// a bucket, any other answer for a chunk. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "client/exchange/port.h"
#include "common/base/bytes.h"
#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::client {

class Sums {
 public:
  // `setup` outlives this object.
  explicit Sums(const setup::Setup& setup) : setup_(setup) {}

  // Stores an answer: scalers, a sum, or weights. Answers may come in any order.
  void Store(const Answer& answer);
  // Whether the answers for all chunks of `bucket` in `round` have arrived, and also the scalers,
  // if the servers send the scalers in an answer of their own.
  bool HasAnswers(uint64_t round, uint32_t bucket) const;
  // Whether HasAnswers(round, bucket) is true for all buckets.
  bool HasAnswers(uint64_t round) const;
  // The learning rate in the answers of a round. Only answers of server shard 0 contain the
  // learning rate; 0 until one of these answers has arrived.
  double learning_rate(uint64_t round) const;
  bool has_learning_rate(uint64_t round) const;

  // Calls use(tensor, first, values) for the elements [first, first + values.size()) of the model,
  // piece by piece; a piece lies in one tensor and fits a cache. The values are the mean over the
  // contributors. If the servers hold the parameters, the values are what the server sent: weights
  // or changes. Skips chunks without contributors. kMismatch for an invalid answer. REQUIRES
  // HasAnswers(round, bucket).
  using UseValues =
      std::function<void(uint32_t tensor, uint64_t first, std::span<const float> values)>;
  Status Decode(uint64_t round, uint32_t bucket, const UseValues& use) const;
  // Decodes all buckets.
  Status Decode(uint64_t round, const UseValues& use) const;
  // A chunk's sum, not yet decoded.
  struct EncodedSum {
    // The sums of the chunk's segments (ranges within one tensor), one after the other.
    std::span<const uint8_t> sums;
    std::vector<float> scalers;  // by segment; 0 if the scaler is not shared
    int contributors = 0;
  };
  // Calls `use` with the encoded sum of each chunk of the bucket. Skips chunks without
  // contributors.
  using UseEncodedSum =
      std::function<Status(const protocol::Chunk& chunk, const EncodedSum& encoded_sum)>;
  Status VisitEncodedSums(uint64_t round, uint32_t bucket, const UseEncodedSum& use) const;

  // If the servers hold the parameters: writes to w the weights that the servers sent, or adds to w
  // the changes that the servers sent. REQUIRES HasAnswers(round).
  Status InstallWeights(uint64_t round, float* w) const;

  // Answers to pulls are stored under this round.
  static constexpr uint64_t kPullRound = 0;
  // For algorithms without rounds: the clock (this rank's number of exchanges) up to which the
  // servers have counted this rank's pushes. Answers to pulls contain this clock.
  uint64_t counted_clock() const { return counted_clock_; }
  void DropPullAnswers() { rounds_.erase(kPullRound); }

  // For a round that uses the scalers of an earlier round (ExchangePlan::scaler_age_rounds):
  // returns the bucket's shared scalers, those that all workers use. REQUIRES that the earlier
  // round was applied.
  std::vector<float> ScalersOfEarlierRound(uint64_t round, uint32_t bucket) const;
  // Return and restore the scalers that the rounds after `applied` will use: one array per earlier
  // round, newest first; no array if rounds do not use earlier scalers.
  std::vector<std::vector<float>> SaveScalers(uint64_t applied) const;
  void RestoreScalers(uint64_t applied, const std::vector<std::vector<float>>& saved_scalers);

  // Drops the answers of the rounds up to `round`. Keeps scalers that later rounds use.
  void DropRoundsUpTo(uint64_t round);
  // Drops all answers and scalers.
  void Clear() {
    rounds_.clear();
    max_scalers_.clear();
  }

 private:
  // The answer for one chunk.
  struct ChunkAnswer {
    bool has_arrived = false;
    bool is_uncoded = false;  // whether `payload` is weights as uncoded fp32
    uint32_t contributors = 0;
    Bytes payload;
  };
  struct Bucket {
    std::vector<float> scalers;       // of the ranges whose scaler all workers share, in order
    bool has_scalers = false;         // whether the scalers have arrived
    std::vector<ChunkAnswer> chunks;  // the answers, by chunk
    size_t num_arrived = 0;           // how many of `chunks` have arrived
  };
  struct Round {
    std::map<uint32_t, Bucket> buckets;
    std::optional<double> learning_rate;
  };

  const Bucket& BucketOf(uint64_t round, uint32_t bucket) const {
    return rounds_.at(round).buckets.at(bucket);
  }
  // `scalers`: the bucket's shared scalers. If the result has 0 contributors, the weights do not
  // change.
  Result<EncodedSum> GetEncodedSum(const protocol::Chunk& chunk, const std::vector<float>& scalers,
                                   const ChunkAnswer& answer) const;
  Status DecodeChunk(const protocol::Chunk& chunk, const std::vector<float>& scalers,
                     const ChunkAnswer& answer, const UseValues& use) const;
  // Returns the bucket's shared scalers with which `round` is decoded; empty if there are none.
  std::vector<float> ScalersOf(uint64_t round, uint32_t bucket) const;
  void StoreMaxScalers(const Answer& answer);

  const setup::Setup& setup_;
  std::map<uint64_t, Round> rounds_;
  // By round and bucket: the maximum over the workers of each scaler, as it arrived with the sums.
  std::map<uint64_t, std::map<uint32_t, std::vector<float>>> max_scalers_;
  uint64_t counted_clock_ = 0;
};

}  // namespace tern::client
