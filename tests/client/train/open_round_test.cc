// Tests of OpenRound. A round is open while its answers are on their way. A bucket is a group of
// tensors. When a layer needs a tensor, OpenRound waits for the answers to the bucket of that
// tensor, and updates the weights of all buckets whose answers are there.
#include "client/train/open_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "tests/client/train/train_job.h"

namespace tern::client {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kRound = 1, kNumSteps = 2;

Bytes BytesOf(const std::vector<float>& values) {
  return Bytes::Own(
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

class OpenRoundTest : public testing::Test {
 protected:
  explicit OpenRoundTest(const std::vector<std::string>& extra_overrides = {}) {
    std::vector<std::string> overrides = {"exchange.codec=fp32", "exchange.bucket_kib=1",
                                          "train.schedule.learning_rate=1",
                                          "train.optimizer.name=sgd"};
    overrides.insert(overrides.end(), extra_overrides.begin(), extra_overrides.end());
    job_ = SmallJob(overrides);
    replica_ = std::move(*Replica::Make(*job_));
    std::fill_n(replica_->parameters(), job_->table.total, 0.f);
    sums_.emplace(*job_);
    open_round_.emplace(
        *job_, kNumSteps, *replica_, *sums_, progress_,
        [this](const std::function<bool()>& done) { return Wait(done); },
        [this](uint64_t round) { applied_rounds_.push_back(round); });
  }

  // OpenRound calls this to wait until done(). Meanwhile the answers of `arriving_buckets_` arrive.
  Status Wait(const std::function<bool()>& done) {
    while (!done()) {
      if (arriving_buckets_.empty()) return Status(Code::kPeerLost, "nothing comes any more");
      PutAnswer(arriving_buckets_.front());
      arriving_buckets_.pop_front();
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
      sums_->Store(answer);
    }
  }
  // Returns the buckets whose weights round 1 has changed, and checks that each bucket is either
  // changed as a whole or not at all.
  std::vector<uint32_t> ChangedBuckets() const {
    std::vector<uint32_t> changed_buckets;
    for (uint32_t b = 0; b < job_->plan.buckets.size(); ++b) {
      const protocol::Bucket& bucket = job_->plan.buckets[b];
      const float* w = replica_->parameters() + bucket.begin;
      for (uint64_t i = 1; i < bucket.count; ++i) EXPECT_EQ(w[i], w[0]) << "bucket " << b;
      if (w[0] != 0) changed_buckets.push_back(b);
    }
    return changed_buckets;
  }

  std::unique_ptr<setup::Setup> job_;
  Registry registry_;
  Progress progress_{registry_};
  std::unique_ptr<Replica> replica_;
  std::optional<Sums> sums_;
  std::optional<OpenRound> open_round_;
  std::deque<uint32_t> arriving_buckets_;  // The buckets whose answers arrive next, in order.
  std::vector<uint64_t> applied_rounds_;   // The rounds that OpenRound reported as complete.
};

// Bucket 0 has all tensors except the first; bucket 1 has the first tensor.
TEST_F(OpenRoundTest, WaitsOnlyForTheBucketsOfTheTensor) {
  ASSERT_EQ(job_->plan.buckets.size(), 2u);
  ASSERT_TRUE(open_round_->applies_by_bucket());
  open_round_->Open(kRound);
  arriving_buckets_ = {1, 0};
  ASSERT_TRUE(open_round_->AwaitTensor(0).ok());
  EXPECT_THAT(arriving_buckets_, ElementsAre(0));
  EXPECT_THAT(ChangedBuckets(), ElementsAre(1));
  EXPECT_TRUE(applied_rounds_.empty());
  EXPECT_EQ(open_round_->round(), kRound);
  ASSERT_TRUE(open_round_->AwaitTensor(1).ok());
  EXPECT_THAT(applied_rounds_, ElementsAre(kRound));
  EXPECT_FALSE(open_round_->round().has_value());
  EXPECT_TRUE(open_round_->AwaitTensor(2).ok());
  EXPECT_THAT(ChangedBuckets(), ElementsAre(0, 1));
  EXPECT_EQ(replica_->parameters()[0], -1);
}

TEST_F(OpenRoundTest, AppliesBucketsThatArriveWhileItWaits) {
  open_round_->Open(kRound);
  arriving_buckets_ = {0, 1};
  ASSERT_TRUE(open_round_->AwaitTensor(0).ok());
  EXPECT_THAT(ChangedBuckets(), ElementsAre(0, 1));
  EXPECT_THAT(applied_rounds_, ElementsAre(kRound));
}

TEST_F(OpenRoundTest, FinishAppliesTheRemainingBuckets) {
  EXPECT_TRUE(open_round_->Finish().ok());  // Succeeds, because no round is open.
  EXPECT_TRUE(open_round_->AwaitTensor(0).ok());
  open_round_->Open(kRound);
  arriving_buckets_.resize(job_->plan.buckets.size());
  std::iota(arriving_buckets_.begin(), arriving_buckets_.end(), 0);
  ASSERT_TRUE(open_round_->Finish().ok());
  EXPECT_EQ(ChangedBuckets().size(), job_->plan.buckets.size());
  EXPECT_THAT(applied_rounds_, ElementsAre(kRound));
}

// A round may close without a late worker, whose program still computes its step.
TEST_F(OpenRoundTest, AppliesNoBucketBeforeItIsPermitted) {
  open_round_->OpenEarly(kRound);
  PutAnswer(0);
  PutAnswer(1);
  ASSERT_TRUE(open_round_->ApplyArrived().ok());
  EXPECT_TRUE(ChangedBuckets().empty());
  open_round_->Permit(1);
  ASSERT_TRUE(open_round_->ApplyArrived().ok());
  EXPECT_THAT(ChangedBuckets(), ElementsAre(1));
  open_round_->Permit(0);
  ASSERT_TRUE(open_round_->Finish().ok());
  EXPECT_THAT(applied_rounds_, ElementsAre(kRound));
}

class LookaheadInOpenRoundTest : public OpenRoundTest {
 protected:
  LookaheadInOpenRoundTest()
      : OpenRoundTest({"train.ssgd.lookahead.every_steps=1", "train.ssgd.lookahead.decay=0.5",
                       "train.ssgd.lookahead.decay_power=1"}) {
    std::fill_n(replica_->average().data(), job_->table.total, 0.f);
  }
};

// In step 1 of 2 the average, 0, keeps half of 0.5. No layer may read the weights before.
TEST_F(LookaheadInOpenRoundTest, LooksAheadWithEachBucket) {
  open_round_->Open(kRound);
  arriving_buckets_ = {1, 0};
  ASSERT_TRUE(open_round_->AwaitTensor(0).ok());
  EXPECT_THAT(arriving_buckets_, ElementsAre(0));
  EXPECT_EQ(replica_->parameters()[0], -0.75);
  EXPECT_EQ(replica_->average()[0], -0.75);
  EXPECT_THAT(ChangedBuckets(), ElementsAre(1));
}

TEST_F(OpenRoundTest, ReturnsTheErrorOfTheWait) {
  open_round_->Open(kRound);
  arriving_buckets_ = {0};
  EXPECT_EQ(open_round_->AwaitTensor(0).message(), "nothing comes any more");
  EXPECT_EQ(open_round_->round(), kRound);
  EXPECT_TRUE(applied_rounds_.empty());
}

// In these tests, workers may join the job. Then a round must be applied to all buckets at once,
// because a joining worker must never receive weights of which only some buckets are updated.
class OpenRoundWithJoinsTest : public OpenRoundTest {
 protected:
  OpenRoundWithJoinsTest() : OpenRoundTest({"faults.on_worker_loss=wait"}) {}
};

TEST_F(OpenRoundWithJoinsTest, AppliesAllBucketsOfARoundAtOnce) {
  EXPECT_FALSE(open_round_->applies_by_bucket());
  open_round_->Open(kRound);
  for (uint32_t b = 1; b < job_->plan.buckets.size(); ++b) arriving_buckets_.push_back(b);
  EXPECT_FALSE(open_round_->Finish().ok());
  EXPECT_TRUE(ChangedBuckets().empty());
  arriving_buckets_ = {0};
  EXPECT_TRUE(open_round_->Finish().ok());
  EXPECT_EQ(ChangedBuckets().size(), job_->plan.buckets.size());
  EXPECT_THAT(applied_rounds_, ElementsAre(kRound));
}

}  // namespace
}  // namespace tern::client
