// Tests of Sums, which stores the servers' answers (sums and scalers) by round and decodes them. A
// scaler is the number that the ternary codes of a tensor multiply.
#include "client/exchange/sums.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/protocol/rounds/cells.h"
#include "kernels/codes/stats.h"
#include "tests/client/train/train_job.h"

namespace tern::client {
namespace {

Answer MakeAnswer(protocol::Cell cell, uint64_t round, uint32_t contributors, Bytes payload) {
  Answer answer{cell, {}, std::move(payload)};
  answer.outcome.mutable_of_round()->set_round(round);
  answer.outcome.mutable_of_round()->set_contributors(contributors);
  return answer;
}

// Returns the largest size in bytes of the chunk's sum over `contributors` workers.
size_t MaxSumBytes(const protocol::ExchangePlan& plan, const protocol::Chunk& chunk,
                   uint32_t contributors) {
  size_t max_bytes = 0;
  for (const codec::Segment& segment : chunk.segments) {
    if (contributors == 0) break;
    max_bytes += plan.codec_of[segment.tensor]->MaxSumSize(segment, static_cast<int>(contributors));
  }
  return max_bytes;
}

// Stores an all-zero sum for every chunk of a round.
void PutZeroSums(const setup::Setup& job, uint64_t round, uint32_t contributors, Sums* sums) {
  for (const protocol::Bucket& bucket : job.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      std::string zeros(MaxSumBytes(job.plan, chunk, contributors), '\0');
      sums->Store(MakeAnswer({protocol::Kind::kPush, chunk.bucket, chunk.index}, round,
                             contributors, Bytes::Own(std::move(zeros))));
    }
  }
}

// A late worker may receive a sum before the scalers that decode it, because sums and scalers come
// over different connections.
TEST(Sums, HasARoundOnlyAfterItsScalersArrive) {
  const auto job = SmallJob();
  Sums sums(*job);
  PutZeroSums(*job, 3, 2, &sums);
  EXPECT_FALSE(sums.HasAnswers(3));
  for (uint32_t b = 0; b < job->plan.buckets.size(); ++b) {
    const std::vector<float> scalers(job->plan.buckets[b].shared_parts.size(), 1.f);
    sums.Store(MakeAnswer({protocol::Kind::kScale, b, 0}, 3, 2, protocol::EncodeScalers(scalers)));
  }
  EXPECT_TRUE(sums.HasAnswers(3));
  EXPECT_FALSE(sums.HasAnswers(2));
}

TEST(Sums, HasARoundWithoutContributors) {
  const auto job = SmallJob();
  Sums sums(*job);
  PutZeroSums(*job, 1, 0, &sums);
  for (uint32_t b = 0; b < job->plan.buckets.size(); ++b)
    sums.Store(MakeAnswer({protocol::Kind::kScale, b, 0}, 1, 0, {}));
  ASSERT_TRUE(sums.HasAnswers(1));
  size_t num_elements = 0;
  EXPECT_TRUE(sums.Decode(1, [&](uint32_t, uint64_t,
                                 std::span<const float> values) { num_elements += values.size(); })
                  .ok());
  EXPECT_EQ(num_elements, 0u);
}

// A worker that skips the round has no other way to see it.
TEST(Sums, RefuseScalersThatDoNotParse) {
  const auto job = SmallJob();
  Sums sums(*job);
  PutZeroSums(*job, 1, 2, &sums);
  for (uint32_t b = 0; b < job->plan.buckets.size(); ++b) {
    sums.Store(
        MakeAnswer({protocol::Kind::kScale, b, 0}, 1, 2, Bytes::Own(std::string("no scalers"))));
  }
  ASSERT_TRUE(sums.HasAnswers(1));
  const Status status = sums.Decode(1, [](uint32_t, uint64_t, std::span<const float>) {});
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("saw no valid scalers of bucket 0"), std::string::npos)
      << status.message();
}

TEST(Sums, RefuseMoreContributorsThanWorkers) {
  const auto job = SmallJob();
  Sums sums(*job);
  PutZeroSums(*job, 1, 3, &sums);
  for (uint32_t b = 0; b < job->plan.buckets.size(); ++b) {
    const std::vector<float> scalers(job->plan.buckets[b].shared_parts.size(), 1.f);
    sums.Store(MakeAnswer({protocol::Kind::kScale, b, 0}, 1, 3, protocol::EncodeScalers(scalers)));
  }
  const Status status = sums.Decode(1, [](uint32_t, uint64_t, std::span<const float>) {});
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("3 contributors"), std::string::npos) << status.message();
}

// Finite pushes may add up to infinity, and weights on servers may become so.
TEST(Sums, ThatOverflowMeanThatTheTrainingDiverged) {
  for (const char* parameters : {"localized", "central"}) {
    const auto job =
        SmallJob({"exchange.codec=fp32", std::string("train.parameters=") + parameters});
    Sums sums(*job);
    for (const protocol::Bucket& bucket : job->plan.buckets) {
      for (const protocol::Chunk& chunk : bucket.chunks) {
        const std::vector<float> infinite(chunk.count, INFINITY);
        sums.Store(MakeAnswer({protocol::Kind::kPush, chunk.bucket, chunk.index}, 1, 2,
                              protocol::EncodeScalers(infinite)));
      }
    }
    const Status status = sums.Decode(1, [](uint32_t, uint64_t, std::span<const float>) {});
    EXPECT_EQ(status.code(), Code::kDiverged) << status.message();
    EXPECT_NE(status.message().find("; lower the learning rate"), std::string::npos);
  }
}

TEST(Sums, NeedNoScalerAnswersIfSumsContainScalers) {
  const auto job = SmallJob({"exchange.scaler=per_worker"});
  Sums sums(*job);
  PutZeroSums(*job, 1, 2, &sums);
  EXPECT_TRUE(sums.HasAnswers(1));
  sums.DropRoundsUpTo(1);
  EXPECT_FALSE(sums.HasAnswers(1));
}

TEST(Sums, SaveTheScalersThatLaterRoundsNeed) {
  const auto job = SmallJob({"train.algorithm=odsgd", "exchange.scaler=previous"});
  ASSERT_EQ(job->plan.scaler_age_rounds, 2u);
  Sums sums(*job), restored(*job);
  for (uint64_t round = 1; round <= 3; ++round) {
    for (const protocol::Bucket& bucket : job->plan.buckets) {
      for (const protocol::Chunk& chunk : bucket.chunks) {
        std::vector<float> scalers(chunk.num_scalers,
                                   static_cast<float>(10 * round + chunk.bucket));
        std::string payload(protocol::EncodeScalers(scalers).view());
        payload.append(MaxSumBytes(job->plan, chunk, 2), '\0');
        sums.Store(MakeAnswer({protocol::Kind::kPush, chunk.bucket, chunk.index}, round, 2,
                              Bytes::Own(std::move(payload))));
      }
    }
    sums.DropRoundsUpTo(round);
  }
  restored.RestoreScalers(3, sums.SaveScalers(3));
  for (const uint64_t round : {4, 5}) {
    for (uint32_t b = 0; b < job->plan.buckets.size(); ++b) {
      const std::vector<float> scalers = restored.ScalersOfEarlierRound(round, b);
      EXPECT_EQ(scalers, sums.ScalersOfEarlierRound(round, b));
      ASSERT_EQ(scalers.size(), job->plan.buckets[b].shared_parts.size());
      EXPECT_EQ(scalers[0], 1.1f * static_cast<float>(10 * (round - 2) + b));
    }
  }
}

// Round 2 has no contributors, so its answers have no scalers. Round 3 then uses those of round 1.
TEST(Sums, KeepScalersThroughARoundWithoutContributors) {
  const auto job = SmallJob({"exchange.scaler=previous", "exchange.scaler_margin=1"});
  Sums sums(*job);
  const size_t num_scalers = job->plan.buckets[0].shared_parts.size();
  std::string payload(protocol::EncodeScalers(std::vector<float>(num_scalers, 7.f)).view());
  payload.append(MaxSumBytes(job->plan, job->plan.chunk(0, 0), 2), '\0');
  sums.Store(MakeAnswer({protocol::Kind::kPush, 0, 0}, 1, 2, Bytes::Own(std::move(payload))));
  sums.Store(MakeAnswer({protocol::Kind::kPush, 0, 0}, 2, 0, {}));
  EXPECT_EQ(sums.ScalersOfEarlierRound(3, 0), std::vector<float>(num_scalers, 7.f));
}

// A server that holds the weights can send changes of the weights. It encodes a change like one
// worker's push, not like a sum.
TEST(Sums, AddChangesToTheWorkersWeights) {
  for (const std::string& name : codec::CodecNames()) {
    const auto codec_of_name = codec::MakeCodec(name, {});
    // Stochastic codecs are not allowed for changes.
    if ((*codec_of_name)->is_stochastic()) continue;
    SCOPED_TRACE(name);
    const auto job = SmallJob({"train.parameters=central", "exchange.pull=changes",
                               "exchange.pull_codec=" + name, "exchange.chunk_kib=1"});
    ASSERT_NE(job, nullptr);
    Sums sums(*job);
    std::vector<float> w(job->plan.parameters(), 1), expected = w;
    for (const protocol::Bucket& bucket : job->plan.buckets) {
      for (const protocol::Chunk& chunk : bucket.chunks) {
        std::vector<uint8_t> codes;
        float* next_expected = expected.data() + chunk.begin;
        for (const codec::Segment& segment : chunk.segments) {
          std::vector<float> change(segment.count), decoded_change(segment.count);
          for (size_t i = 0; i < change.size(); ++i)
            change[i] = std::sin(static_cast<float>(chunk.begin + 7 * i));
          const codec::Codec& codec = *job->plan.pull_codec;
          const auto stats = kernels::ComputeStats(change.data(), change.size());
          const size_t code_begin = codes.size();
          codec.Encode(change.data(), segment, codec.Prepare(stats, change, {}), {}, &codes);
          const auto code = std::span(codes).subspan(code_begin);
          ASSERT_TRUE(codec.DecodeSingleCode(code, segment, decoded_change.data()).ok());
          for (const float value : decoded_change) *next_expected++ += value;
        }
        sums.Store(MakeAnswer({protocol::Kind::kPush, chunk.bucket, chunk.index}, 1, 2,
                              Bytes::Own(std::move(codes))));
      }
    }
    const Status status = sums.InstallWeights(1, w.data());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(w, expected);
    EXPECT_NE(w, std::vector<float>(w.size(), 1));
  }
}

}  // namespace
}  // namespace tern::client
