// A round that is applied as its answers arrive.
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
    std::vector<std::string> all = {"exchange.codec=fp32", "exchange.bucket_kib=1",
                                    "train.schedule.learning_rate=1", "train.optimizer.name=sgd"};
    all.insert(all.end(), more.begin(), more.end());
    job_ = SmallJob(all);
    replica_ = std::move(*Replica::Make(*job_));
    std::fill_n(replica_->parameters(), job_->table.total, 0.f);
    sums_.emplace(*job_);
    round_.emplace(
        *job_, *replica_, *sums_, progress_,
        [this](const std::function<bool()>& done) { return Wait(done); },
        [this](uint64_t round) { applied_.push_back(round); });
  }

  // When the round waits, the next answer of `coming_` arrives.
  Status Wait(const std::function<bool()>& done) {
    while (!done()) {
      if (coming_.empty()) return Status(Code::kPeerLost, "nothing comes any more");
      Put(coming_.front());
      coming_.pop_front();
    }
    return Ok();
  }
  // The bucket's answer arrives. The mean gradient is 1 everywhere, so its weights decrease by 1.
  void Put(uint32_t bucket) {
    for (const protocol::Chunk& chunk : job_->plan.buckets[bucket].chunks) {
      const std::vector<float> ones(chunk.count, 1.f);
      Answer answer{{protocol::Kind::kPush, bucket, chunk.index}, {}, BytesOf(ones)};
      answer.outcome.mutable_of_round()->set_round(kRound);
      answer.outcome.mutable_of_round()->set_contributors(2);
      answer.outcome.set_learning_rate(1);
      sums_->Put(answer);
    }
  }
  // The buckets to which round 1 is applied. All others must be unchanged.
  std::vector<uint32_t> Applied() const {
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
  std::deque<uint32_t> coming_;
  std::vector<uint64_t> applied_;
};

// Bucket 0 has all tensors except the first, bucket 1 has the first.
TEST_F(OpenRoundTest, WaitsOnlyForTheBucketsOfTheTensor) {
  ASSERT_EQ(job_->plan.buckets.size(), 2u);
  ASSERT_TRUE(round_->by_bucket());
  round_->Open(kRound);
  coming_ = {1, 0};
  ASSERT_TRUE(round_->Need(0).ok());
  EXPECT_THAT(coming_, ElementsAre(0));
  EXPECT_THAT(Applied(), ElementsAre(1));
  EXPECT_TRUE(applied_.empty());
  EXPECT_EQ(round_->round(), kRound);
  ASSERT_TRUE(round_->Need(1).ok());
  EXPECT_THAT(applied_, ElementsAre(kRound));
  EXPECT_FALSE(round_->round().has_value());
  EXPECT_TRUE(round_->Need(2).ok());
  EXPECT_THAT(Applied(), ElementsAre(0, 1));
  EXPECT_EQ(replica_->parameters()[0], -1);
}

TEST_F(OpenRoundTest, AppliesBucketsThatArriveWhileItWaits) {
  round_->Open(kRound);
  coming_ = {0, 1};
  ASSERT_TRUE(round_->Need(0).ok());
  EXPECT_THAT(Applied(), ElementsAre(0, 1));
  EXPECT_THAT(applied_, ElementsAre(kRound));
}

TEST_F(OpenRoundTest, FinishAppliesTheRemainingBuckets) {
  EXPECT_TRUE(round_->Finish().ok());  // no round is open
  EXPECT_TRUE(round_->Need(0).ok());
  round_->Open(kRound);
  coming_.resize(job_->plan.buckets.size());
  std::iota(coming_.begin(), coming_.end(), 0);
  ASSERT_TRUE(round_->Finish().ok());
  EXPECT_EQ(Applied().size(), job_->plan.buckets.size());
  EXPECT_THAT(applied_, ElementsAre(kRound));
}

TEST_F(OpenRoundTest, ReturnsTheErrorOfTheWait) {
  round_->Open(kRound);
  coming_ = {0};
  EXPECT_EQ(round_->Need(0).message(), "nothing comes any more");
  EXPECT_EQ(round_->round(), kRound);
  EXPECT_TRUE(applied_.empty());
}

// Workers may join. A round is applied as a whole, because a joining worker must never get weights
// of which only some buckets are updated.
class OpenRoundWithJoinsTest : public OpenRoundTest {
 protected:
  OpenRoundWithJoinsTest() : OpenRoundTest({"faults.on_worker_loss=wait"}) {}
};

TEST_F(OpenRoundWithJoinsTest, AppliesAllBucketsOfARoundAtOnce) {
  EXPECT_FALSE(round_->by_bucket());
  round_->Open(kRound);
  for (uint32_t b = 1; b < job_->plan.buckets.size(); ++b) coming_.push_back(b);
  EXPECT_FALSE(round_->Finish().ok());
  EXPECT_TRUE(Applied().empty());
  coming_ = {0};
  EXPECT_TRUE(round_->Finish().ok());
  EXPECT_EQ(Applied().size(), job_->plan.buckets.size());
  EXPECT_THAT(applied_, ElementsAre(kRound));
}

}  // namespace
}  // namespace tern::client
