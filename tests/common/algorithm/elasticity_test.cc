// Tests of Elasticity, a job's settings for rounds that close without some workers.
#include "common/algorithm/elasticity.h"

#include <gtest/gtest.h>

namespace tern::algorithm {
namespace {

TEST(Elasticity, FollowsTheJob) {
  pb::Job job;
  job.mutable_workers()->set_count(4);
  job.mutable_train()->set_algorithm("ssgd");
  job.mutable_train()->mutable_ssgd()->set_backup_workers(1);
  job.mutable_faults()->set_on_worker_loss(pb::Faults::wait);
  Elasticity elasticity = Elasticity::FromJob(job);
  EXPECT_EQ(elasticity.quorum, 3u);
  EXPECT_EQ(elasticity.on_loss, OnLoss::kWait);
  EXPECT_FALSE(elasticity.shrinks_on_loss());
  EXPECT_TRUE(elasticity.has_unsolicited_outcomes());
  // Only ssgd has backup workers, and there must be fewer of them than workers.
  job.mutable_train()->set_algorithm("odsgd");
  EXPECT_EQ(Elasticity::FromJob(job).quorum, 0u);
  EXPECT_FALSE(Elasticity::FromJob(job).has_unsolicited_outcomes());
  job.mutable_train()->set_algorithm("ssgd");
  job.mutable_train()->mutable_ssgd()->set_backup_workers(4);
  EXPECT_EQ(Elasticity::FromJob(job).quorum, 0u);
  job.mutable_faults()->set_on_worker_loss(pb::Faults::fail);
  EXPECT_EQ(Elasticity::FromJob(job).on_loss, OnLoss::kFail);
  job.mutable_faults()->set_on_worker_loss(pb::Faults::shrink);
  job.mutable_workers()->set_min(2);
  elasticity = Elasticity::FromJob(job);
  EXPECT_TRUE(elasticity.shrinks_on_loss());
  EXPECT_TRUE(elasticity.has_unsolicited_outcomes());
  EXPECT_EQ(elasticity.min_workers, 2u);
  EXPECT_TRUE(elasticity.begins_with_min);
  EXPECT_EQ(elasticity.begin_workers, 0u);
  job.mutable_workers()->set_max(job.workers().count());
  EXPECT_EQ(Elasticity::FromJob(job).begin_workers, 0u);
  job.mutable_workers()->set_max(job.workers().count() + 1);
  EXPECT_EQ(Elasticity::FromJob(job).begin_workers, job.workers().count());
}

}  // namespace
}  // namespace tern::algorithm
