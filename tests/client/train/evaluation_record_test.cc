#include "client/train/evaluation_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tern::client {
namespace {

pb::Job JobThatStops(uint32_t no_better_evaluations, double min_accuracy_gain = 0) {
  pb::Job job;
  job.mutable_train()->mutable_stop_when()->set_no_better_evaluations(no_better_evaluations);
  job.mutable_train()->mutable_stop_when()->set_min_accuracy_gain(min_accuracy_gain);
  job.mutable_evaluation()->set_keep_best(true);
  return job;
}

pb::Figures Total(uint64_t correct, double loss = 100) {
  pb::Figures figures;
  figures.set_test_correct(correct);
  figures.set_test_samples(100);
  figures.set_test_loss(loss);
  return figures;
}

TEST(EvaluationRecord, KeepsTheBestByAccuracyAndThenByLoss) {
  EvaluationRecord record(JobThatStops(0));
  EXPECT_FALSE(record.IsBest(0));
  record.Add({}, Total(30, 90), 10);
  EXPECT_TRUE(record.IsBest(10));
  record.Add({}, Total(29, 10), 20);
  EXPECT_FALSE(record.IsBest(20));
  record.Add({}, Total(30, 89), 30);
  EXPECT_TRUE(record.IsBest(30));
  record.Add({}, Total(30, 89), 40);
  EXPECT_EQ(record.Get().best_step(), 30u);
  EXPECT_EQ(record.Get().best_accuracy(), 0.3);
  EXPECT_EQ(record.Get().best_loss(), 0.89);
  EXPECT_EQ(record.Get().count(), 4u);
  EXPECT_FALSE(record.StopsJob());
}

TEST(EvaluationRecord, StopsAfterEnoughEvaluationsInARow) {
  EvaluationRecord record(JobThatStops(2));
  record.Add({}, Total(30), 10);
  record.Add({}, Total(30), 20);  // the same loss, too
  EXPECT_FALSE(record.StopsJob());
  record.Add({}, Total(31), 30);
  record.Add({}, Total(30), 40);
  EXPECT_FALSE(record.StopsJob());
  record.Add({}, Total(30), 50);
  EXPECT_TRUE(record.StopsJob());
  // The last evaluation may be the best; the job has stopped all the same.
  record.SetLastStep(51);
  record.Add({}, Total(40), 51);
  EXPECT_TRUE(record.StopsJob());
  EXPECT_TRUE(record.IsBest(51));
  record.SetLastStep(99);
  EXPECT_EQ(record.last_step(), 51u);
  record.ForgetLastStep();
  EXPECT_EQ(record.last_step(), 0u);
}

TEST(EvaluationRecord, AGainMustBeLargerThanTheJobAsks) {
  EvaluationRecord record(JobThatStops(3, 0.05));
  record.Add({}, Total(30), 10);
  for (const uint64_t step : {1, 2, 3}) {  // each is better, but not by enough
    EXPECT_FALSE(record.StopsJob());
    record.Add({}, Total(30 + step, 50), 10 + step);
    EXPECT_TRUE(record.IsBest(10 + step));
  }
  EXPECT_TRUE(record.StopsJob());
  EvaluationRecord other(JobThatStops(3, 0.05));
  other.Add({}, Total(30), 10);
  other.Add({}, Total(36), 20);
  EXPECT_EQ(other.Get().not_better(), 0u);
}

TEST(EvaluationRecord, AdoptsTheBestInformedRecord) {
  EvaluationRecord old_worker(JobThatStops(5)), new_worker(JobThatStops(5));
  for (const uint64_t step : {10, 20, 30}) old_worker.Add({}, Total(50 - step), step);
  pb::Figures of_old, of_new;
  *of_old.mutable_evaluations() = old_worker.Get();
  *of_new.mutable_evaluations() = new_worker.Get();
  for (EvaluationRecord* record : {&old_worker, &new_worker}) {
    record->Add({of_new, of_old, {}}, Total(1), 40);
    EXPECT_EQ(record->Get().not_better(), 3u);
    EXPECT_EQ(record->Get().count(), 4u);
    EXPECT_EQ(record->Get().best_step(), 10u);
    // A worker that has just joined gets the same answer again.
    record->Add({of_new, of_old, {}}, Total(1), 40);
    EXPECT_EQ(record->Get().count(), 4u);
  }
}

TEST(EvaluationRecord, AnEvaluationOfDivergedWeightsIsNeverBetter) {
  for (const double loss : {double{NAN}, double{INFINITY}}) {
    EvaluationRecord record(JobThatStops(2));
    record.Add({}, Total(30), 10);
    record.Add({}, Total(100, loss), 20);
    EXPECT_FALSE(record.IsBest(20));
    EXPECT_EQ(record.Get().best_accuracy(), 0.3);
    EXPECT_EQ(record.Get().bar_accuracy(), 0.3);
    record.Add({}, Total(100, loss), 30);
    EXPECT_TRUE(record.StopsJob());
  }
}

TEST(EvaluationRecord, AnyEvaluationIsBetterThanAFirstOneOfDivergedWeights) {
  EvaluationRecord record(JobThatStops(2, 0.5));
  record.Add({}, Total(100, NAN), 10);
  EXPECT_FALSE(record.IsBest(10));
  EXPECT_EQ(record.Get().best_step(), 0u);
  record.Add({}, Total(0), 20);
  EXPECT_TRUE(record.IsBest(20));
  EXPECT_EQ(record.Get().bar_loss(), 1);
  EXPECT_EQ(record.Get().not_better(), 0u);
}

TEST(EvaluationRecord, SurvivesAsFloats) {
  EvaluationRecord record(JobThatStops(5));
  record.Add({}, Total(37, 12.3456789), (uint64_t{1} << 40) + 12345);
  record.SetLastStep(~uint64_t{0} - 77);
  EvaluationRecord copy(JobThatStops(5));
  ASSERT_EQ(copy.floats().size(), record.floats().size());
  std::copy(record.floats().begin(), record.floats().end(), copy.floats().begin());
  EXPECT_EQ(copy.Get().SerializeAsString(), record.Get().SerializeAsString());
  for (const float value : record.floats()) EXPECT_TRUE(value >= 0 && value < 65536);
}

TEST(EvaluationRecord, OfAJobThatDoesNotUseItStaysEmpty) {
  EvaluationRecord record{pb::Job()};
  record.Add({}, Total(30), 10);
  EXPECT_FALSE(record.is_used());
  EXPECT_EQ(record.Get().count(), 0u);
  EXPECT_FALSE(record.IsBest(10));
}

}  // namespace
}  // namespace tern::client
