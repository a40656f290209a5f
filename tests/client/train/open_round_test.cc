// Tests of OpenRound. A round is open while its answers are on their way; OpenRound updates the
// weights of each bucket as soon as the bucket's answer is there and a layer needs it.
#include "client/train/open_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "tests/client/train/train_job.h"

namespace tern::client {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kRound = 1;

Bytes BytesOf(const std::vector<float>& values) {
  return Bytes::Own(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

class OpenRoundTest : public testing::Test {
 protected:
  explicit OpenRoundTest(const std::vector<std::string>& more = {}) {
    std::vector<std::string> overrides = {"exchange.codec=fp32", "exchange.bucket_kib=1",
                                          "train.schedule.learning_rate=1",
                                          "train.optimizer.name=sgd"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    job_ = SmallJob(overrides);
    replica_ = std::move(*Replica::Make(*job_));
    std::fill_n(replica_->parameters(), job_->table.total, 0.f);
    sums_.emplace(*job_);
    round_.emplace(
        *job_, *replica_, *sums_, progress_,
        [this](const std::function<bool()>& done) { return Wait(done); },
        [this](uint64_t round) { applied_.push_back(round); });
  }

  // OpenRound calls this to wait until done(). Meanwhile the answers of `arriving_` arrive.
  Status Wait(const std::function<bool()>& done) {
    while (!done()) {
      if (arriving_.empty()) return Status(Code::kPeerLost, "nothing comes any more");
      PutAnswer(arriving_.front());
      arriving_.pop_front();
    }
    return Ok();
  }
  // Stores the servers' answer to a bucket. The mean gradient and the learning rate are 1, so the
  // weights of the bucket will decrease by 1.
  void PutAnswer(uint32_t bucket) {
    for (const protocol::Chunk& chunk : job_->plan.buckets[bucket].chunks) {
      const std::vector<float> ones(chunk.count, 1.f);
      Answer answer{{protocol::Kind::kPush, bucket, chunk.index}, {}, BytesOf(ones)};
      answer.outcome.mutable_of_round()->set_round(kRound);
      answer.outcome.mutable_of_round()->set_contributors(2);
      answer.outcome.set_learning_rate(1);
      sums_->Put(answer);
    }
  }
  // Returns the buckets whose weights round 1 has changed, and checks that each bucket is either
  // changed as a whole or not at all.
  std::vector<uint32_t> ChangedBuckets() const {
    std::vector<uint32_t> applied;
    for (uint32_t b = 0; b < job_->plan.buckets.size(); ++b) {
      const protocol::Bucket& bucket = job_->plan.buckets[b];
      const float* w = replica_->parameters() + bucket.begin;
      for (uint64_t i = 1; i < bucket.count; ++i) EXPECT_EQ(w[i], w[0]) << "bucket " << b;
      if (w[0] != 0) applied.push_back(b);
    }
    return applied;
  }

  std::unique_ptr<setup::Setup> job_;
  Registry registry_;
  Progress progress_{registry_};
  std::unique_ptr<Replica> replica_;
  std::optional<Sums> sums_;
  std::optional<OpenRound> round_;
  std::deque<uint32_t> arriving_;  // The buckets whose answers arrive next, in order.
  std::vector<uint64_t> applied_;  // The rounds that OpenRound reported as complete.
};

// Bucket 0 has all tensors except the first; bucket 1 has the first tensor.
TEST_F(OpenRoundTest, WaitsOnlyForTheBucketsOfTheTensor) {
  ASSERT_EQ(job_->plan.buckets.size(), 2u);
  ASSERT_TRUE(round_->by_bucket());
  round_->Open(kRound);
  arriving_ = {1, 0};
  ASSERT_TRUE(round_->Need(0).ok());
  EXPECT_THAT(arriving_, ElementsAre(0));
  EXPECT_THAT(ChangedBuckets(), ElementsAre(1));
  EXPECT_TRUE(applied_.empty());
  EXPECT_EQ(round_->round(), kRound);
  ASSERT_TRUE(round_->Need(1).ok());
  EXPECT_THAT(applied_, ElementsAre(kRound));
  EXPECT_FALSE(round_->round().has_value());
  EXPECT_TRUE(round_->Need(2).ok());
  EXPECT_THAT(ChangedBuckets(), ElementsAre(0, 1));
  EXPECT_EQ(replica_->parameters()[0], -1);
}

TEST_F(OpenRoundTest, AppliesBucketsThatArriveWhileItWaits) {
  round_->Open(kRound);
  arriving_ = {0, 1};
  ASSERT_TRUE(round_->Need(0).ok());
  EXPECT_THAT(ChangedBuckets(), ElementsAre(0, 1));
  EXPECT_THAT(applied_, ElementsAre(kRound));
}

TEST_F(OpenRoundTest, FinishAppliesTheRemainingBuckets) {
  EXPECT_TRUE(round_->Finish().ok());  // Succeeds, because no round is open.
  EXPECT_TRUE(round_->Need(0).ok());
  round_->Open(kRound);
  arriving_.resize(job_->plan.buckets.size());
  std::iota(arriving_.begin(), arriving_.end(), 0);
  ASSERT_TRUE(round_->Finish().ok());
  EXPECT_EQ(ChangedBuckets().size(), job_->plan.buckets.size());
  EXPECT_THAT(applied_, ElementsAre(kRound));
}

TEST_F(OpenRoundTest, ReturnsTheErrorOfTheWait) {
  round_->Open(kRound);
  arriving_ = {0};
  EXPECT_EQ(round_->Need(0).message(), "nothing comes any more");
  EXPECT_EQ(round_->round(), kRound);
  EXPECT_TRUE(applied_.empty());
}

// In these tests, workers may join the job. Then a round must be applied to all buckets at once,
// because a joining worker must never receive weights of which only some buckets are updated.
class OpenRoundWithJoinsTest : public OpenRoundTest {
 protected:
  OpenRoundWithJoinsTest() : OpenRoundTest({"faults.on_worker_loss=wait"}) {}
};

TEST_F(OpenRoundWithJoinsTest, AppliesAllBucketsOfARoundAtOnce) {
  EXPECT_FALSE(round_->by_bucket());
  round_->Open(kRound);
  for (uint32_t b = 1; b < job_->plan.buckets.size(); ++b) arriving_.push_back(b);
  EXPECT_FALSE(round_->Finish().ok());
  EXPECT_TRUE(ChangedBuckets().empty());
  arriving_ = {0};
  EXPECT_TRUE(round_->Finish().ok());
  EXPECT_EQ(ChangedBuckets().size(), job_->plan.buckets.size());
  EXPECT_THAT(applied_, ElementsAre(kRound));
}

}  // namespace
}  // namespace tern::client
