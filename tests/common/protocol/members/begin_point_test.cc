// Tests of the functions that choose the point from which a job starts or continues, and that say
// why it must not begin anew. A run is one execution of a job from step 0 on, identified by a
// number.
#include <gmock/gmock.h>

#include "common/protocol/members/recovery.h"
#include "tests/common/protocol/members/words.h"

namespace tern::protocol::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(NewestCommonCheckpoint, IsTheNewestThatIsInEveryOffer) {
  const Checkpoints a = CheckpointsAfter({10, 20, 30}), b = CheckpointsAfter({20, 10}),
                    c = CheckpointsAfter({30, 20}), none = {};
  const auto newest_step = [](const std::vector<const Checkpoints*>& offers) {
    const auto checkpoint = NewestCommonCheckpoint(offers);
    return checkpoint.has_value() ? checkpoint->step() : 0;
  };
  EXPECT_EQ(newest_step({&a}), 30u);
  EXPECT_EQ(newest_step({&a, &b}), 20u);
  EXPECT_EQ(newest_step({&c, &b, &a}), 20u);
  EXPECT_EQ(newest_step({&a, &none}), 0u);
  EXPECT_EQ(newest_step({}), 0u);
  const Checkpoints offer_of_another_run = {CheckpointAfter(20, 4)};
  EXPECT_EQ(newest_step({&a, &offer_of_another_run}), 0u)
      << "the same step of another run is something else";
}

Checkpoints WithHashes(Checkpoints checkpoints, const std::vector<uint64_t>& hashes) {
  for (size_t i = 0; i < hashes.size(); ++i)
    checkpoints[static_cast<int>(i)].set_weights_hash(hashes[i]);
  return checkpoints;
}

TEST(NewestCommonCheckpoint, HasTheSameWeightsEverywhere) {
  const Checkpoints a = WithHashes(CheckpointsAfter({10, 20}), {1, 2}),
                    b = WithHashes(CheckpointsAfter({10, 20}), {1, 3}),
                    unknown = CheckpointsAfter({10, 20});
  EXPECT_EQ(NewestCommonCheckpoint(std::vector{&a, &b})->step(), 10u);
  EXPECT_EQ(NewestCommonCheckpoint(std::vector{&unknown, &a, &b})->step(), 10u);
  EXPECT_EQ(NewestCommonCheckpoint(std::vector{&a, &unknown, &a})->step(), 20u);
}

// Why the job must not begin anew, given the hellos of workers 0, 1, ...; empty if it may.
std::string WhyNotAnewOf(const std::vector<pb::Hello>& hellos) {
  std::vector<Offer> offers;
  for (const pb::Hello& hello : hellos) {
    const std::string number = std::to_string(offers.size());
    offers.push_back({"worker " + number + " (node" + number + ")", &hello});
  }
  return WhyNotBeginAnew(offers);
}
constexpr char kAdviceIfMissing[] =
    "; mount or restore what is missing and start again, or begin anew with --set "
    "checkpoints.resume=false, which keeps what is there under another name";

TEST(WhyNotBeginAnew, IsEmptyWhereNobodyHasAny) {
  EXPECT_EQ(WhyNotAnewOf({HelloWith({}), HelloWith({})}), "");
  EXPECT_EQ(WhyNotAnewOf({HelloWith({}, 3), HelloWith({})}), "")
      << "a run that began and wrote no checkpoint";
  EXPECT_EQ(WhyNotAnewOf({}), "");
}

TEST(WhyNotBeginAnew, SaysWhoHasWhat) {
  EXPECT_EQ(WhyNotAnewOf({HelloWith(CheckpointsAfter({100, 200, 390}), 3), HelloWith({})}),
            std::string("no checkpoint is on the disks of all: worker 0 (node0) has steps 100 to "
                        "390; worker 1 (node1) has none") +
                kAdviceIfMissing);
  const pb::Hello hello = HelloWith(CheckpointsAfter({10, 20}));
  EXPECT_THAT(WhyNotAnewOf({hello, hello, HelloWith({CheckpointAfter(30)})}),
              HasSubstr("worker 0 (node0), worker 1 (node1) have steps 10 and 20; worker 2 (node2) "
                        "has step 30;"));
}

TEST(WhyNotBeginAnew, TellsDamagedOnesFromNone) {
  const std::string fault = "/a has checkpoints up to step 20, which are damaged";
  EXPECT_THAT(WhyNotAnewOf({HelloWith({}), HelloWithUnfit(false, fault)}),
              HasSubstr("worker 0 (node0) has none; worker 1 (node1) has none that is whole: " +
                        fault + "; mount or restore"));
}

TEST(WhyNotBeginAnew, NamesTheWeightsThatDiffer) {
  const pb::Hello hello = HelloWith(WithHashes(CheckpointsAfter({10}), {1}), 3),
                  other = HelloWith(WithHashes(CheckpointsAfter({10}), {2}), 3);
  EXPECT_EQ(WhyNotAnewOf({hello, hello, other}),
            std::string("no checkpoint is on the disks of all: worker 0 (node0), worker 1 (node1), "
                        "worker 2 (node2) have step 10; the weights in the checkpoint of step 10 "
                        "differ: worker 0 (node0) has hash 0000000000000001, worker 2 (node2) has "
                        "0000000000000002") +
                kAdviceIfMissing);
}

TEST(WhyNotBeginAnew, NamesTheRunsWhereTheyDiffer) {
  EXPECT_THAT(WhyNotAnewOf({HelloWith(CheckpointsAfter({10, 20}, 3)),
                            HelloWith(CheckpointsAfter({10, 20}, 4))}),
              HasSubstr("worker 0 (node0) has steps 10 and 20 of run 0000000000000003; worker 1 "
                        "(node1) has steps 10 and 20 of run 0000000000000004"));
}

TEST(WhyNotBeginAnew, NamesAFewOfMany) {
  std::vector<pb::Hello> hellos(100, HelloWith(CheckpointsAfter({10, 20})));
  hellos[99] = HelloWith({});
  EXPECT_THAT(WhyNotAnewOf(hellos),
              HasSubstr("worker 5 (node5) and 93 more have steps 10 and 20; worker "
                        "99 (node99) has none"));
  for (uint64_t rank = 0; rank < 100; ++rank)
    hellos[rank] = HelloWith({CheckpointAfter(10 + rank), CheckpointAfter(500 + rank)});
  EXPECT_LT(WhyNotAnewOf(hellos).size(), 1000u);
  EXPECT_THAT(WhyNotAnewOf(hellos), HasSubstr("the others differ too (100 kinds)"));
}

TEST(WhyNotBeginAnew, TellsOfAnotherJobFirst) {
  const std::string fault =
      "/a has checkpoints up to step 390 of another job: seed was 1, is now 2";
  EXPECT_EQ(
      WhyNotAnewOf({HelloWith({}), HelloWithUnfit(true, fault)}),
      "this job does not fit the checkpoints of worker 1 (node1): " + fault +
          "; start the job that wrote them, give another output_dir, or begin anew with --set "
          "checkpoints.resume=false, which keeps what is there under another name");
  EXPECT_THAT(WhyNotAnewOf({HelloWithUnfit(true, "x"), HelloWithUnfit(true, "y"),
                            HelloWithUnfit(true, "z")}),
              HasSubstr("of worker 0 (node0) and 2 more daemons: x;"));
}

TEST(WhyNotBeginAnew, TakesNoControlCharactersFromAPeer) {
  const std::string reason = WhyNotAnewOf({HelloWithUnfit(true, "a\nb" + std::string(5000, 'c'))});
  EXPECT_LT(reason.size(), 1000u);
  EXPECT_EQ(WhyNotAnewOf({HelloWithUnfit(true, "a\nb")}).find('\n'), std::string::npos);
}

// All daemons were killed when some had written their first checkpoint and some had not.
TEST(WhyNotBeginAnew, IsEmptyWhereARunEndedBeforeAllHadTheirFirst) {
  const pb::Hello hello0 = HelloWith({CheckpointAfter(10)}, 3);
  EXPECT_EQ(WhyNotAnewOf({hello0, HelloWith({}, 3)}), "");
  EXPECT_NE(WhyNotAnewOf({hello0, HelloWith({}, 4)}), "") << "another run began there";
  EXPECT_NE(WhyNotAnewOf({hello0, HelloWith({})}), "") << "no run began there: a disk is missing";
  EXPECT_NE(WhyNotAnewOf({HelloWith(CheckpointsAfter({10, 20}), 3), HelloWith({}, 3)}), "")
      << "the run had a common checkpoint";
  EXPECT_NE(WhyNotAnewOf({HelloWith({CheckpointAfter(10, 4)}, 3), HelloWith({}, 3)}), "")
      << "the checkpoint is of another run";
  EXPECT_NE(WhyNotAnewOf({hello0, HelloWith({}, 3), HelloWithUnfit(false, "damaged")}), "");
}

// A shard of a job without rounds writes its first checkpoint after as many steps as the workers
// have made on average. Here it has none.
TEST(WhyNotBeginAnew, NamesAShardWithoutTheCheckpointThatWorkersWereBeyond) {
  pb::Hello shard = HelloWith({}, 3);
  shard.set_role(pb::Hello::shard);
  const pb::Hello two = HelloWith(CheckpointsAfter({10, 20}), 3), none = HelloWith({}, 3),
                  one = HelloWith({CheckpointAfter(10)}, 3);
  const auto why_not = [&](const std::vector<const pb::Hello*>& workers) {
    std::vector<Offer> offers = {{"server shard 0", &shard}};
    for (const pb::Hello* worker : workers) offers.push_back({"a worker", worker, false});
    return WhyNotBeginAnew(offers);
  };
  EXPECT_THAT(why_not({&two, &two}),
              AllOf(HasSubstr("server shard 0 has none"), HasSubstr("steps 10 and 20")));
  EXPECT_NE(why_not({&two, &one, &none}), "");
  EXPECT_EQ(why_not({&two, &none, &none}), "") << "one worker may be far ahead of the others";
  EXPECT_EQ(why_not({&one, &one}), "") << "the shard may have ended before it wrote its own";
}

// The hello of a shard with these checkpoints of its own.
pb::Hello ShardHelloWith(const Checkpoints& own_checkpoints, uint64_t began) {
  pb::Hello hello = HelloWith({}, began);
  hello.set_role(pb::Hello::shard);
  for (const pb::Checkpoint& checkpoint : own_checkpoints)
    *hello.add_shard_checkpoints() = checkpoint;
  return hello;
}

TEST(WhyNotGoBackToBeginning, NamesTheShardWhoseDiskIsMissing) {
  const pb::Hello shard_with_disk = ShardHelloWith(CheckpointsAfter({10, 20}, 7), 7),
                  without_disk = ShardHelloWith({}, 0), early = ShardHelloWith({}, 7),
                  worker = HelloWith(CheckpointsAfter({20, 30}, 7), 7),
                  early_worker = HelloWith({CheckpointAfter(10, 7)}, 7),
                  of_other_run = HelloWith(CheckpointsAfter({20, 30}, 6), 6);
  EXPECT_EQ(WhyNotGoBackToBeginning({{"shard 0", &without_disk}, {"worker 1", &worker}}, 7),
            std::string("the job would go back to its beginning: nothing of this run is on the "
                        "disk of shard 0, while worker 1 has a checkpoint of step 30") +
                kAdviceIfMissing);
  EXPECT_EQ(WhyNotGoBackToBeginning({{"worker 1", &worker}, {"shard 1", &early}}, 7), "")
      << "shard 1 was lost before its first checkpoint";
  EXPECT_EQ(WhyNotGoBackToBeginning({{"worker 1", &early_worker}, {"shard 1", &without_disk}}, 7),
            "")
      << "shard 1 may have been lost before its first checkpoint";
  EXPECT_EQ(WhyNotGoBackToBeginning({{"shard 0", &shard_with_disk}, {"shard 1", &without_disk}}, 7),
            std::string("the job would go back to its beginning: nothing of this run is on the "
                        "disk of shard 1, while shard 0 has a checkpoint of step 20") +
                kAdviceIfMissing)
      << "shards write checkpoints between those of the workers";
  EXPECT_EQ(WhyNotGoBackToBeginning({{"shard 0", &shard_with_disk}, {"shard 1", &early}}, 7), "");
  EXPECT_EQ(WhyNotGoBackToBeginning({{"shard 0", &shard_with_disk}, {"shard 1", &without_disk}}, 7,
                                    /*window=*/100),
            "")
      << "shard 1 may be that far behind, and so before its first checkpoint";
  EXPECT_EQ(WhyNotGoBackToBeginning({{"worker 1", &of_other_run}, {"shard 1", &without_disk}}, 7),
            "");
}

TEST(WhyNotGoBackToBeginning, NamesTheShardWhoseCheckpointsAreDamaged) {
  const pb::Hello whole = ShardHelloWith(CheckpointsAfter({10, 20}, 7), 7),
                  without_disk = ShardHelloWith({}, 0),
                  early = ShardHelloWith({CheckpointAfter(10, 7)}, 7);
  pb::Hello damaged = ShardHelloWith({}, 7);
  damaged.mutable_unfit()->set_sentence("DIR is damaged");
  EXPECT_EQ(WhyNotGoBackToBeginning({{"shard 0", &whole}, {"shard 1", &damaged}}, 7),
            std::string("the job would go back to its beginning: checkpoints of shard 1 cannot be "
                        "used: DIR is damaged, while shard 0 has a checkpoint of step 20") +
                kAdviceIfMissing);
  EXPECT_THAT(WhyNotGoBackToBeginning(
                  {{"shard 0", &whole}, {"shard 1", &damaged}, {"shard 2", &without_disk}}, 7),
              testing::HasSubstr(
                  "DIR is damaged; nothing of this run is on the disk of shard 2, while shard 0"));
  EXPECT_EQ(WhyNotGoBackToBeginning({{"shard 0", &early}, {"shard 1", &damaged}}, 7), "");
}

TEST(SavedCheckpoints, TellADamagedRunOnlyWhereItIsUnderWay) {
  SavedCheckpoints saved;
  saved.unfit_in_run.set_sentence("all that this shard alone has written is damaged");
  pb::Hello of_new_run, of_run_under_way;
  saved.AddTo(&of_new_run);
  EXPECT_FALSE(of_new_run.has_unfit());
  saved.AddTo(&of_run_under_way, true);
  EXPECT_EQ(of_run_under_way.unfit().sentence(), saved.unfit_in_run.sentence());
}

TEST(Choose, TakesTheNewestCommonUnlessShardsOfThisRunHaveANewerOne) {
  pb::Hello worker = HelloWith(CheckpointsAfter({10, 20}, 7)), shard0 = worker, shard1 = worker;
  shard0.set_role(pb::Hello::shard);
  shard1.set_role(pb::Hello::shard);
  for (const auto& c : CheckpointsAfter({24, 26, 28}, 7)) *shard0.add_shard_checkpoints() = c;
  for (const auto& c : CheckpointsAfter({22, 24, 26}, 7)) *shard1.add_shard_checkpoints() = c;
  const std::vector<Offer> offers = {{"a", &worker}, {"b", &shard0}, {"c", &shard1}};
  const BeginPoint begin_of_started_job = ChooseBeginPoint(offers, std::nullopt);
  EXPECT_EQ(begin_of_started_job.checkpoint->step(), 20u);
  EXPECT_TRUE(begin_of_started_job.workers_load_checkpoint);
  const BeginPoint begin_of_running_job = ChooseBeginPoint(offers, 7);
  EXPECT_EQ(begin_of_running_job.checkpoint->step(), 26u);
  EXPECT_EQ(begin_of_running_job.round(), 13u);
  EXPECT_FALSE(begin_of_running_job.workers_load_checkpoint);
  EXPECT_EQ(ChooseBeginPoint(offers, 8).checkpoint->step(), 20u)
      << "the shards' checkpoints are of another run";
  shard1.clear_shard_checkpoints();
  EXPECT_TRUE(ChooseBeginPoint(offers, 7).workers_load_checkpoint)
      << "the shards have no newer checkpoint in common";
  worker.clear_checkpoints();
  EXPECT_EQ(ChooseBeginPoint(offers, 7).checkpoint->step(), 20u)
      << "only the shards have this checkpoint";
  EXPECT_FALSE(ChooseBeginPoint(offers, 7).workers_load_checkpoint);
  EXPECT_FALSE(ChooseBeginPoint(offers, std::nullopt).checkpoint.has_value());
  EXPECT_EQ(ChooseBeginPoint(offers, std::nullopt).round(), 0u);
}

TEST(AnyHasCheckpoint, DoesNotCountAShardsOwn) {
  pb::Hello hello;
  *hello.add_shard_checkpoints() = CheckpointAfter(10);
  EXPECT_FALSE(AnyHasCheckpoint({{"a", &hello}}));
  *hello.add_checkpoints() = CheckpointAfter(10);
  EXPECT_TRUE(AnyHasCheckpoint({{"a", &hello}}));
}

}  // namespace
}  // namespace tern::protocol::test
