// Tests of JobPosition, which derives from the workers' counters how many steps of the job are
// done.
#include "setup/job_position.h"

#include <gtest/gtest.h>

namespace tern::setup {
namespace {

// Returns the status of a worker process that has done `rounds` rounds, has finished step
// `job_step` of the job, and continued the job from step `from_step`.
WorkerStatus StatusOfWorker(uint32_t rank, uint64_t rounds, uint64_t job_step,
                            uint64_t from_step = 0) {
  WorkerStatus worker;
  worker.rank = rank;
  worker.counters.set_rounds(rounds);
  worker.counters.set_job_step(job_step);
  worker.counters.set_from_step(from_step);
  return worker;
}

// Returns the status of the same worker while it joins the job.
WorkerStatus MarkJoining(WorkerStatus worker) {
  worker.is_joining = true;
  return worker;
}

// Returns the status of the same worker after it was lost.
WorkerStatus MarkLost(WorkerStatus worker) {
  worker.is_present = false;
  return worker;
}

TEST(JobPosition, IsThatOfTheFarthestWorker) {
  JobPosition position;
  position.Update(0, 0, {StatusOfWorker(0, 0, 0)});
  EXPECT_EQ(position.steps(), 0u);
  EXPECT_EQ(position.steps_done(), 0u);
  position.Update(100, 0, {StatusOfWorker(0, 7, 7), StatusOfWorker(1, 8, 8)});
  EXPECT_EQ(position.steps(), 100u);
  EXPECT_EQ(position.steps_done(), 8u);
  EXPECT_EQ(position.resumed_from(), 0u);
}

// Workers of an algorithm without rounds do different numbers of steps; the job ends when their
// mean is its length.
TEST(JobPosition, IsTheMeanWithoutRounds) {
  JobPosition position(/*has_rounds=*/false);
  position.Update(60, 0, {StatusOfWorker(0, 0, 0), StatusOfWorker(1, 20, 20)});
  EXPECT_EQ(position.steps_done(), 10u);
  position.Update(60, 0, {MarkLost(StatusOfWorker(0, 0, 0)), StatusOfWorker(1, 30, 30)});
  EXPECT_EQ(position.steps_done(), 15u) << "a lost worker's steps stay";
  position.Update(60, 0, {StatusOfWorker(0, 15, 15), StatusOfWorker(1, 106, 106)});
  EXPECT_EQ(position.steps_done(), 60u);
  position.Update(60, 0, {StatusOfWorker(0, 18, 18), StatusOfWorker(1, 110, 110)});
  EXPECT_EQ(position.steps_done(), 60u) << "at most the job's length";
}

// As after a restart of shard 0.
TEST(JobPosition, WithoutRoundsWaitsForAllWorkersThatArePresent) {
  JobPosition position(/*has_rounds=*/false);
  WorkerStatus silent;
  silent.rank = 1;
  position.Update(60, 0, {StatusOfWorker(0, 40, 40), silent});
  EXPECT_EQ(position.steps_done(), 0u);
  position.Update(60, 0, {StatusOfWorker(0, 40, 40), StatusOfWorker(1, 20, 20)});
  EXPECT_EQ(position.steps_done(), 30u);
}

TEST(JobPosition, CountsStepsOfTheJobInAResumedRun) {
  JobPosition position;
  position.Update(250, 9,
                  {MarkJoining(StatusOfWorker(0, 0, 0)), MarkJoining(StatusOfWorker(1, 0, 0))});
  position.Update(250, 9, {StatusOfWorker(0, 3, 153, 150), MarkJoining(StatusOfWorker(1, 0, 0))});
  EXPECT_EQ(position.steps_done(), 153u);
  EXPECT_EQ(position.resumed_from(), 150u);
}

TEST(JobPosition, DoesNotFallWhenWorkersRestartOneByOne) {
  JobPosition position;
  position.Update(500, 0, {StatusOfWorker(0, 200, 200), StatusOfWorker(1, 200, 200)});
  position.Update(500, 0, {MarkLost(StatusOfWorker(0, 200, 200)), StatusOfWorker(1, 200, 200)});
  position.Update(500, 0, {MarkJoining(StatusOfWorker(0, 0, 0)), StatusOfWorker(1, 201, 201)});
  EXPECT_EQ(position.steps_done(), 201u);
  position.Update(500, 0, {StatusOfWorker(0, 4, 205), MarkJoining(StatusOfWorker(1, 0, 0))});
  EXPECT_EQ(position.steps_done(), 205u);
  // In algorithms without rounds, workers may be at different steps. Here the farthest worker is
  // lost.
  position.Update(500, 0, {MarkLost(StatusOfWorker(0, 4, 205)), StatusOfWorker(1, 2, 190)});
  position.Update(500, 0, {StatusOfWorker(0, 0, 0), StatusOfWorker(1, 3, 191)});
  EXPECT_EQ(position.steps_done(), 205u);
}

TEST(JobPosition, FallsAfterTheJobWentBackAndTrainsAgain) {
  JobPosition position;
  position.Update(500, 1, {StatusOfWorker(0, 200, 200), StatusOfWorker(1, 200, 200)});
  // Worker 0 was not restarted, so its counters still have the old values.
  position.Update(500, 2,
                  {MarkJoining(StatusOfWorker(0, 200, 200)), MarkJoining(StatusOfWorker(1, 0, 0))});
  EXPECT_EQ(position.steps_done(), 200u);
  position.Update(500, 2, {StatusOfWorker(0, 200, 0, 180), StatusOfWorker(1, 0, 0, 180)});
  EXPECT_EQ(position.steps_done(), 200u) << "nothing is known yet";
  EXPECT_EQ(position.resumed_from(), 180u);
  position.Update(500, 2, {StatusOfWorker(0, 201, 181, 180), StatusOfWorker(1, 0, 180, 180)});
  EXPECT_EQ(position.steps_done(), 181u);
}

TEST(JobPosition, UsesTheRoundsOfAWorkerThatReportsNoStep) {
  WorkerStatus worker;
  worker.counters.set_rounds(12);
  JobPosition position;
  position.Update(100, 0, {worker});
  EXPECT_EQ(position.steps_done(), 12u);
}

}  // namespace
}  // namespace tern::setup
