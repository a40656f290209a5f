// Tests of Differences(), the list of keys that differ between two jobs, and of a job as text.
#include "common/config/differences.h"

#include <gmock/gmock.h>

#include "common/config/canonical.h"
#include "common/config/scalar.h"
#include "tests/common/config/every_key.h"
#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using testing::ElementsAre;
using testing::IsEmpty;

// SmallJob with these overrides (KEY=VALUE).
pb::Job MakeJob(const std::vector<std::string>& overrides = {}) {
  const auto job = Parse(SmallJob(), overrides);
  EXPECT_TRUE(job.ok()) << job.status().message();
  return job.ok() ? *job : pb::Job();
}

// The differences, except in keys that may change when a job is resumed.
std::vector<std::string> DifferencesBetween(const pb::Job& old_job, const pb::Job& new_job) {
  return DifferencesAtResume(old_job, new_job);
}

TEST(Differences, NameTheKeyAndBothValues) {
  const pb::Job old_job = MakeJob({"train.clip_norm=1"});
  EXPECT_THAT(DifferencesBetween(old_job, MakeJob({"train.clip_norm=2"})),
              ElementsAre("train.clip_norm was 1, is now 2"));
  EXPECT_THAT(DifferencesBetween(old_job, old_job), IsEmpty());
  EXPECT_THAT(DifferencesBetween(old_job, MakeJob({"train.clip_norm=1", "seed=2",
                                                   "model.name=cifarnet", "exchange.codec=fp32"})),
              ElementsAre("seed was 1, is now 2", "model.name was \"lenet\", is now \"cifarnet\"",
                          "exchange.codec was \"ternary\", is now \"fp32\""));
}

TEST(Differences, InTheNumberOfWorkersCountWhereItMustNotChange) {
  const auto differences = [](const std::vector<std::string>& settings) {
    std::vector<std::string> changed = settings;
    changed.insert(changed.end(), {"workers.count=4"});
    return DifferencesBetween(MakeJob(settings), MakeJob(changed));
  };
  EXPECT_THAT(differences({}), IsEmpty());
  EXPECT_EQ(StateDigest(MakeJob()), StateDigest(MakeJob({"workers.count=4"})));
  EXPECT_THAT(differences({"train.algorithm=asgd"}), ElementsAre("workers.count was 2, is now 4"));
}

TEST(Differences, ReportKeysOfOneJobOnly) {
  EXPECT_THAT(DifferencesBetween(MakeJob(), MakeJob({"model.dropout=0.25"})),
              ElementsAre("model.dropout was left out, is now 0.25"));
  const auto algorithm_differences =
      DifferencesBetween(MakeJob(), MakeJob({"train.algorithm=psgd", "train.psgd.p=4"}));
  ASSERT_GE(algorithm_differences.size(), 3u);
  EXPECT_EQ(algorithm_differences[0], "train.algorithm was \"ssgd\", is now \"psgd\"");
  EXPECT_THAT(algorithm_differences,
              testing::Contains(testing::StartsWith("train.psgd was left out, is now {p: 4")));
}

TEST(Differences, InListsNameTheItemOrTheLength) {
  pb::Job old_job, new_job;
  for (pb::Job* job : {&old_job, &new_job}) {
    for (const char* name : {"a", "b"})
      job->mutable_model()->mutable_net()->add_layers()->set_name(name);
  }
  new_job.mutable_model()->mutable_net()->mutable_layers(1)->set_name("c");
  EXPECT_THAT(Differences(old_job, new_job),
              ElementsAre("model.net.layers[1].name was \"b\", is now \"c\""));
  new_job.mutable_model()->mutable_net()->mutable_layers()->RemoveLast();
  EXPECT_THAT(Differences(old_job, new_job),
              ElementsAre("model.net.layers was a list of 2, is now a list of 1"));
  EXPECT_THAT(
      Differences(MakeJob({"train.schedule.name=multistep", "train.schedule.milestones=[10, 20]"}),
                  MakeJob({"train.schedule.name=multistep", "train.schedule.milestones=[10]"})),
      ElementsAre("train.schedule.milestones was [10, 20], is now [10]"));
}

TEST(Differences, ReportValuesThatDifferBeyondTheShownPart) {
  pb::Job old_job, new_job;
  old_job.set_name(std::string(100, 'x') + "a");
  new_job.set_name(std::string(100, 'x') + "b");
  EXPECT_EQ(Differences(old_job, new_job).size(), 1u);
}

// The change of a key is reported exactly if it changes the digest. Enums are left out.
TEST(Differences, ExistExactlyIfTheDigestDiffers) {
  pb::Job job;
  Populate(&job);
  const pb::Job old_job = job;
  int num_digest_changes = 0;
  ForEachScalar(&job, "", false,
                [&](Message* message, const FieldDescriptor* field, const std::string& key, bool) {
                  if (field->enum_type() != nullptr) return;
                  std::unique_ptr<Message> saved(message->New());
                  saved->CopyFrom(*message);
                  Node node;
                  node.kind = Node::Kind::kScalar;
                  node.text = field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? "true" : "77";
                  ASSERT_TRUE(SetScalar(node, field, message)) << key;
                  EXPECT_EQ(DifferencesBetween(old_job, job).empty(),
                            StateDigest(old_job) == StateDigest(job))
                      << key;
                  num_digest_changes += StateDigest(old_job) != StateDigest(job);
                  message->CopyFrom(*saved);
                });
  EXPECT_GE(num_digest_changes, 40);
}

TEST(JobText, CanBeReadBack) {
  for (const pb::Job& job : {MakeJob(), MakeJob({"train.schedule.learning_rate=0.1",
                                                 "train.algorithm=odsgd", "name='a \"b\"'"})}) {
    const auto parsed = ReadJobText(JobText(job));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(JobDigest(*parsed), JobDigest(job));
    EXPECT_EQ(StateDigest(*parsed), StateDigest(job));
    EXPECT_THAT(DifferencesBetween(*parsed, job), IsEmpty());
  }
}

TEST(JobText, HasNoLocalKeys) {
  EXPECT_EQ(JobText(MakeJob({"output_dir=here"})), JobText(MakeJob({"output_dir=there"})));
}

TEST(JobText, OfAnotherVersionIsReadWithoutItsUnknownKeys) {
  const auto job = ReadJobText("seed: 7 unheard_of: 2 faults { min_workers: 1 }");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->seed(), 7u);
}

TEST(JobText, ThatIsNoJobIsRefused) {
  EXPECT_FALSE(ReadJobText("").ok());
  EXPECT_FALSE(ReadJobText(std::string(100'000, '{')).ok());
}

}  // namespace
}  // namespace tern::config
