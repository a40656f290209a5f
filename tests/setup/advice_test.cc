// Each cause is planted in figures that show no other.
#include "setup/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Three workers on a machine each, over a network: 100 steps of 100 ms, of which 70 ms are
// computing and 20 ms waiting for sums. Nothing is worth a sentence.
AdviceFacts QuietFacts() {
  AdviceFacts facts;
  facts.codec = "fp32";
  facts.totals.rounds = 300;
  facts.totals.train_s = 10;
  facts.totals.compute_s = 7;
  facts.totals.communication_s = 2;
  facts.totals.traffic.up_bytes = facts.totals.traffic.down_bytes = 30'000'000;
  for (uint32_t rank = 0; rank < 3; ++rank)
    facts.workers.push_back({.rank = rank,
                             .steps = 100,
                             .compute_s = 7,
                             .compute_threads = 2,
                             .cpus = 2,
                             .machine_cpus = 2,
                             .machine = 10 + rank});
  return facts;
}

TEST(Advice, SaysNothingWhereNothingIsClear) { EXPECT_THAT(AdviseOn(QuietFacts()), IsEmpty()); }

TEST(Advice, SaysNothingAfterLessThanASecondOrTenSteps) {
  AdviceFacts facts = QuietFacts();
  facts.workers[0].compute_threads = 64;
  EXPECT_THAT(AdviseOn(facts), testing::SizeIs(1));
  facts.totals.rounds = 29;
  EXPECT_THAT(AdviseOn(facts), IsEmpty());
  facts.totals.rounds = 300;
  facts.totals.train_s = 0.9;
  EXPECT_THAT(AdviseOn(facts), IsEmpty());
  EXPECT_THAT(AdviseOn(AdviceFacts()), IsEmpty());
}

TEST(Advice, NamesAWorkerWithMoreThreadsThanCpus) {
  AdviceFacts facts = QuietFacts();
  facts.workers[1].compute_threads = 64;
  EXPECT_THAT(
      AdviseOn(facts),
      ElementsAre("the CPUs are oversubscribed: worker 1 computes with 64 threads on 2 CPUs; "
                  "workers.threads should not be larger"));
  facts.workers[1].compute_threads = 3;
  EXPECT_THAT(AdviseOn(facts), IsEmpty());
}

TEST(Advice, NamesAMachineWithMoreThreadsOfWorkersThanCpus) {
  AdviceFacts facts = QuietFacts();
  for (AdviceFacts::Worker& worker : facts.workers) worker.machine = 5;
  EXPECT_THAT(
      AdviseOn(facts),
      ElementsAre("the CPUs are oversubscribed: 3 workers on one machine with 2 CPUs compute "
                  "with 6 threads; fewer workers or threads would be faster"));
  for (AdviceFacts::Worker& worker : facts.workers) worker.compute_threads = 0;  // on GPUs
  EXPECT_THAT(AdviseOn(facts), IsEmpty());
}

TEST(Advice, NamesASlowWorker) {
  AdviceFacts facts = QuietFacts();
  facts.workers[2].compute_s = 21.7;
  EXPECT_THAT(AdviseOn(facts),
              ElementsAre("worker 2 takes 3.1 times as long for a step as the median of the others "
                          "(217.0 ms, not 70.0 ms), and all wait for it"));
  facts.waits_for_all_workers = false;
  facts.workers.erase(facts.workers.begin());
  EXPECT_THAT(AdviseOn(facts),
              ElementsAre("worker 2 takes 3.1 times as long for a step as the other "
                          "one (217.0 ms, not 70.0 ms)"));
}

TEST(Advice, ASlowWorkerExplainsTheWaiting) {
  AdviceFacts facts = QuietFacts();
  facts.totals.compute_s = 4;
  facts.totals.communication_s = 6;
  facts.workers[2].compute_s = 21;
  EXPECT_THAT(AdviseOn(facts), ElementsAre(HasSubstr("worker 2 takes")));
}

TEST(Advice, NamesTheTimeOfWritingCheckpoints) {
  AdviceFacts facts = QuietFacts();
  facts.totals.checkpoint_s = 2.5;
  EXPECT_THAT(AdviseOn(facts), ElementsAre("writing checkpoints took 20 % of the time: a larger "
                                           "checkpoints.every_steps or a faster disk would help"));
}

TEST(Advice, NamesWaitingForSamples) {
  AdviceFacts facts = QuietFacts();
  facts.totals.compute_s = 5;
  facts.totals.data_s = 3.5;
  EXPECT_THAT(AdviseOn(facts),
              ElementsAre(HasSubstr("35 % of the training time was waiting for samples")));
}

TEST(Advice, NamesSlowLinksAndWhatIsLeftToTry) {
  AdviceFacts facts = QuietFacts();
  facts.totals.compute_s = 3.5;
  facts.totals.communication_s = 6;
  // 60 MB in 3 x 6 s of waiting.
  EXPECT_THAT(
      AdviseOn(facts),
      ElementsAre("60 % of the training time was waiting for sums, while a worker exchanged "
                  "3.3 MB a second: a smaller codec (exchange.codec: ternary_ans) or a second "
                  "server shard on a host of its own would help"));
  facts.codec = "ternary_ans";
  EXPECT_THAT(AdviseOn(facts), ElementsAre(HasSubstr("a second: a second server shard on a host")));
  facts.num_servers = 2;
  EXPECT_THAT(AdviseOn(facts), ElementsAre(HasSubstr("a second: another server shard on a host")));
  facts.num_servers = 3;
  EXPECT_THAT(AdviseOn(facts),
              ElementsAre(HasSubstr("a second: a larger train.batch_total would")));
  facts.uses_network = false;
  EXPECT_THAT(AdviseOn(facts), IsEmpty());
}

// topk sends less than the codec that is named to others.
TEST(Advice, NamesNoLargerCodec) {
  AdviceFacts facts = QuietFacts();
  facts.totals.compute_s = 3.5;
  facts.totals.communication_s = 6;
  facts.codec = "topk";
  facts.up_ratio = 500;
  EXPECT_THAT(AdviseOn(facts), ElementsAre(HasSubstr("a second: a second server shard")));
  facts.up_ratio = 4;
  EXPECT_THAT(AdviseOn(facts), ElementsAre(HasSubstr("exchange.codec: ternary_ans")));
}

TEST(Advice, SaysThatTheNetworkIsNoLimit) {
  AdviceFacts facts = QuietFacts();
  facts.totals.compute_s = 9;
  facts.totals.communication_s = 0.5;
  EXPECT_THAT(AdviseOn(facts),
              ElementsAre("computing took 90 % of the training time: more or faster "
                          "workers would help, a smaller codec would not"));
}

TEST(Advice, HasTheTwoMostImportantSentences) {
  AdviceFacts facts = QuietFacts();
  facts.workers[1].compute_threads = 64;
  facts.workers[2].compute_s = 21;
  facts.totals.checkpoint_s = 5;
  EXPECT_THAT(AdviseOn(facts),
              ElementsAre(HasSubstr("oversubscribed"), HasSubstr("worker 2 takes")));
}

TEST(Advice, TakesItsFactsFromTheJobAndThePresentWorkers) {
  std::vector<WorkerStatus> workers(2);
  workers[1].rank = 1;
  workers[1].counters.set_steps(7);
  workers[1].counters.set_compute_threads(3);
  workers[1].counters.set_cpus(4);
  workers[1].counters.set_machine(5);
  workers[0].is_present = false;
  const AdviceFacts facts = AdviceFactsOf(*SmallSetup({"exchange.codec=fp16"}), workers);
  ASSERT_EQ(facts.workers.size(), 1u);
  EXPECT_EQ(facts.workers[0].rank, 1u);
  EXPECT_EQ(facts.workers[0].steps, 7u);
  EXPECT_EQ(facts.workers[0].compute_threads, 3u);
  EXPECT_EQ(facts.workers[0].cpus, 4u);
  EXPECT_EQ(facts.workers[0].machine, 5u);
  EXPECT_EQ(facts.codec, "fp16");
  EXPECT_TRUE(facts.pushes_gradients);
  EXPECT_TRUE(facts.waits_for_all_workers);
  EXPECT_FALSE(facts.uses_network);
  EXPECT_TRUE(AdviceFactsOf(*SmallSetup({"servers.0.address=10.0.0.1:7500", "security=none"}), {})
                  .uses_network);
}

}  // namespace
}  // namespace tern::setup
