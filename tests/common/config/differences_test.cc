// The list of keys that differ between two jobs.
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

pb::Job Job(const std::vector<std::string>& overrides = {}) {
  const auto job = Parse(SmallJob(), overrides);
  EXPECT_TRUE(job.ok()) << job.status().message();
  return job.ok() ? *job : pb::Job();
}

std::vector<std::string> Between(const pb::Job& was, const pb::Job& is) {
  return Differences(WithoutResumableKeys(was), WithoutResumableKeys(is));
}

TEST(Differences, NameTheKeyAndBothValues) {
  const pb::Job was = Job({"train.schedule.learning_rate=0.01"});
  EXPECT_THAT(Between(was, Job({"train.schedule.learning_rate=0.02"})),
              ElementsAre("train.schedule.learning_rate was 0.01, is now 0.02"));
  EXPECT_THAT(Between(was, was), IsEmpty());
  EXPECT_THAT(Between(was, Job({"train.schedule.learning_rate=0.01", "seed=2",
                                "model.name=cifarnet", "workers.count=4", "exchange.codec=fp32"})),
              ElementsAre("seed was 1, is now 2", "workers.count was 2, is now 4",
                          "model.name was \"lenet\", is now \"cifarnet\"",
                          "exchange.codec was \"ternary\", is now \"fp32\""));
}

TEST(Differences, ReportKeysOfOneJobOnly) {
  EXPECT_THAT(Between(Job(), Job({"model.dropout=0.25"})),
              ElementsAre("model.dropout was left out, is now 0.25"));
  const auto of_algorithm = Between(Job(), Job({"train.algorithm=psgd", "train.psgd.p=4"}));
  ASSERT_GE(of_algorithm.size(), 3u);
  EXPECT_EQ(of_algorithm[0], "train.algorithm was \"ssgd\", is now \"psgd\"");
  EXPECT_THAT(of_algorithm,
              testing::Contains(testing::StartsWith("train.psgd was left out, is now {p: 4")));
}

TEST(Differences, InListsNameTheItemOrTheLength) {
  pb::Job was, is;
  for (pb::Job* one : {&was, &is}) {
    for (const char* name : {"a", "b"})
      one->mutable_model()->mutable_net()->add_layers()->set_name(name);
  }
  is.mutable_model()->mutable_net()->mutable_layers(1)->set_name("c");
  EXPECT_THAT(Differences(was, is),
              ElementsAre("model.net.layers[1].name was \"b\", is now \"c\""));
  is.mutable_model()->mutable_net()->mutable_layers()->RemoveLast();
  EXPECT_THAT(Differences(was, is),
              ElementsAre("model.net.layers was a list of 2, is now a list of 1"));
  EXPECT_THAT(Between(Job({"train.schedule.name=multistep", "train.schedule.milestones=[10, 20]"}),
                      Job({"train.schedule.name=multistep", "train.schedule.milestones=[10]"})),
              ElementsAre("train.schedule.milestones was [10, 20], is now [10]"));
}

TEST(Differences, ReportValuesThatDifferBeyondTheShownPart) {
  pb::Job was, is;
  was.set_name(std::string(100, 'x') + "a");
  is.set_name(std::string(100, 'x') + "b");
  EXPECT_EQ(Differences(was, is).size(), 1u);
}

// Every key that changes the digest is reported, and no other key.
TEST(Differences, ExistExactlyIfTheDigestDiffers) {
  pb::Job job;
  Populate(&job);
  const pb::Job was = job;
  int seen = 0;
  ForEachScalar(&job, "", false,
                [&](Message* message, const FieldDescriptor* field, const std::string& key, bool) {
                  if (field->enum_type() != nullptr) return;
                  std::unique_ptr<Message> saved(message->New());
                  saved->CopyFrom(*message);
                  Node node;
                  node.kind = Node::Kind::kScalar;
                  node.text = field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? "true" : "77";
                  ASSERT_TRUE(SetScalar(node, field, message)) << key;
                  EXPECT_EQ(Between(was, job).empty(), StateDigest(was) == StateDigest(job)) << key;
                  seen += StateDigest(was) != StateDigest(job);
                  message->CopyFrom(*saved);
                });
  EXPECT_GE(seen, 40);
}

TEST(JobText, CanBeReadBack) {
  for (const pb::Job& job : {Job(), Job({"train.schedule.learning_rate=0.1",
                                         "train.algorithm=odsgd", "name='a \"b\"'"})}) {
    const auto read = ReadJobText(JobText(job));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(JobDigest(*read), JobDigest(job));
    EXPECT_EQ(StateDigest(*read), StateDigest(job));
    EXPECT_THAT(Between(*read, job), IsEmpty());
  }
}

TEST(JobText, HasNoLocalKeys) {
  EXPECT_EQ(JobText(Job({"output_dir=here"})), JobText(Job({"output_dir=there"})));
}

TEST(JobText, OfAnotherVersionIsRefused) {
  EXPECT_FALSE(ReadJobText("").ok());
  EXPECT_FALSE(ReadJobText("seed: 1 unheard_of: 2").ok());
  EXPECT_FALSE(ReadJobText(std::string(100'000, '{')).ok());
}

}  // namespace
}  // namespace tern::config
