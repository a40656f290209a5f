// Tests of a job's digest, of a job printed as YAML, and of the job of a single rank. A key of a
// job may be local: it may then differ between hosts, and is not in the digest.
#include "common/config/canonical.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include <map>
#include <string>

#include "common/config/scalar.h"
#include "tests/common/config/every_key.h"
#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

// Changes the value of a scalar field.
void ChangeValue(Message* message, const FieldDescriptor* field) {
  Node node;
  node.kind = Node::Kind::kScalar;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      node.text = message->GetReflection()->GetBool(*message, field) ? "false" : "true";
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      for (int i = 0; i < field->enum_type()->value_count(); ++i) {
        const auto* value = field->enum_type()->value(i);
        const bool is_same_value = value == message->GetReflection()->GetEnum(*message, field);
        if (i == 0 || !is_same_value) node.text = value->name();
      }
      break;
    default:
      node.text = "77";
  }
  ASSERT_TRUE(SetScalar(node, field, message)) << field->full_name();
}

bool HasOneValue(const FieldDescriptor* field) {
  return field->enum_type() != nullptr && field->enum_type()->value_count() == 1;
}

TEST(JobDigest, ChangesWithEveryKeyExceptLocalOnes) {
  pb::Job job;
  Populate(&job);
  const uint64_t digest = JobDigest(job);
  std::map<std::string, int> num_visits_by_key;
  int num_local_keys = 0, num_shared_keys = 0;
  ForEachScalar(
      &job, "", false,
      [&](Message* message, const FieldDescriptor* field, const std::string& key, bool local) {
        // The value of an enum with a single value cannot change.
        if (HasOneValue(field) && field->has_default_value()) return;
        std::unique_ptr<Message> saved(message->New());
        saved->CopyFrom(*message);
        ChangeValue(message, field);
        EXPECT_EQ(JobDigest(job) == digest, local) << key;
        (local ? num_local_keys : num_shared_keys) += 1;
        message->CopyFrom(*saved);
      });
  EXPECT_EQ(JobDigest(job), digest);
  EXPECT_GE(num_local_keys, 9);
  EXPECT_GE(num_shared_keys, 60);
}

// Jobs from before exchange.rotate have their old digests.
TEST(JobDigest, TreatsNoRotationAsAMissingKey) {
  const auto job = Parse(SmallJob()), job_without = Parse(SmallJob(), {"exchange.rotate=0"}),
             job_with = Parse(SmallJob(), {"exchange.rotate=64"});
  ASSERT_TRUE(job.ok() && job_without.ok() && job_with.ok());
  EXPECT_FALSE(WithoutLocalKeys(*job).exchange().has_rotate());
  EXPECT_EQ(JobDigest(*job), JobDigest(*job_without));
  EXPECT_EQ(StateDigest(*job), StateDigest(*job_without));
  EXPECT_NE(JobDigest(*job), JobDigest(*job_with));
  EXPECT_NE(StateDigest(*job), StateDigest(*job_with));
}

TEST(JobDigest, TreatsMissingKeysAsDefaults) {
  const auto job_without_defaults = Parse(SmallJob());
  const auto job_with_defaults = Parse(SmallJob() + "seed: 1\nexchange: {codec: ternary}\n");
  const auto job_with_other_seed = Parse(SmallJob() + "seed: 2\n");
  const auto job_with_other_local_keys =
      Parse(SmallJobWith("count: 2", "count: 2\n  threads: 5\n  overrides: [{rank: 0, threads: 9}]",
                         "output_dir: elsewhere\nmetrics: {port: 9000}\n"));
  ASSERT_TRUE(job_without_defaults.ok() && job_with_defaults.ok() && job_with_other_seed.ok() &&
              job_with_other_local_keys.ok());
  EXPECT_EQ(JobDigest(*job_without_defaults), JobDigest(*job_with_defaults));
  EXPECT_NE(JobDigest(*job_without_defaults), JobDigest(*job_with_other_seed));
  EXPECT_EQ(JobDigest(*job_without_defaults), JobDigest(*job_with_other_local_keys));
  pb::Job job_with_cleared_keys = *job_without_defaults;
  job_with_cleared_keys.clear_exchange();
  job_with_cleared_keys.clear_seed();
  EXPECT_EQ(JobDigest(*job_without_defaults), JobDigest(job_with_cleared_keys));
}

TEST(JobDigest, DependsOnTheOrderOfLists) {
  const auto job_with_ascending_ports =
      Parse(SmallJobWith(":7500", ":7500\n  - address: 127.0.0.1:7501"));
  const auto job_with_descending_ports =
      Parse(SmallJobWith(":7500", ":7501\n  - address: 127.0.0.1:7500"));
  ASSERT_TRUE(job_with_ascending_ports.ok() && job_with_descending_ports.ok());
  EXPECT_NE(JobDigest(*job_with_ascending_ports), JobDigest(*job_with_descending_ports));
}

TEST(ToYaml, CanBeReadBack) {
  for (const std::string& text :
       {SmallJob(),
        SmallJobWith("dir: /data", "dir: \"a \\\"b\\\" \\\\ # c: 'd' \xc3\xa9\"",
                     "name: \"true\"\n"),
        SmallJobWith(
            "name: lenet",
            "net: {name: \"010\", input: {channels: 3}, layers: [{}, {relu: {}, inputs: [a, "
            "\"*\"]}, "
            "{conv: {outputs: 3, weight_init: {constant: 0.1}, bias_init: {xavier: {}}}}]}",
            "seed: 18446744073709551615\ndata2: x\n")
            .substr(0, 400)}) {
    const auto job = Parse(text.substr(0, text.find("data2")));
    ASSERT_TRUE(job.ok()) << job.status().message();
    const std::string yaml = ToYaml(*job);
    const auto parsed_again = Parse(yaml);
    ASSERT_TRUE(parsed_again.ok()) << parsed_again.status().message() << yaml;
    EXPECT_TRUE(MessageDifferencer::Equals(*job, *parsed_again)) << yaml;
    EXPECT_EQ(ToYaml(*parsed_again), yaml);
  }
}

TEST(ToYaml, LeavesOutWhatAClientsJobMustNotHave) {
  const auto job = Parse(
      "output_dir: out\nservers: [{address: \"127.0.0.1:7500\"}]\nworkers: {count: 2}\n"
      "train: {compute: client}\n");
  ASSERT_TRUE(job.ok()) << job.status().message();
  const auto parsed_again = Parse(ToYaml(*job));
  ASSERT_TRUE(parsed_again.ok()) << parsed_again.status().message();
  EXPECT_TRUE(MessageDifferencer::Equals(*job, *parsed_again));
}

TEST(ToYaml, KeepsNumbersExactly) {
  auto job = Parse(SmallJob());
  ASSERT_TRUE(job.ok());
  for (const double number : {0.1, 1.0 / 3, 1e-300, 1.7976931348623157e308, 5e-324, 1e22, -0.5}) {
    job->mutable_data()->set_scale(number);
    const auto parsed_again = Parse(ToYaml(*job));
    ASSERT_TRUE(parsed_again.ok()) << parsed_again.status().message();
    EXPECT_EQ(parsed_again->data().scale(), number);
  }
}

TEST(ToYaml, WritesEveryDefault) {
  const auto job = Parse(SmallJob());
  ASSERT_TRUE(job.ok());
  EXPECT_THAT(ToYaml(*job), HasSubstr("  credit_kib: 16384\n"));
  EXPECT_THAT(ToYaml(*job), HasSubstr("\n    where: in_gradient\n"));
  EXPECT_THAT(ToYaml(*job), HasSubstr("  overrides: []\n"));
}

// Codes of several levels are unbiased unless the job asks for a clip.
TEST(Defaults, OfTheClipDependOnTheCodec) {
  const auto clip_of = [](const std::string& exchange) {
    const Result<pb::Job> job = Parse(SmallJob() + "exchange: {" + exchange + "}\n");
    EXPECT_TRUE(job.ok()) << job.status().message();
    return job->exchange().clip();
  };
  EXPECT_EQ(clip_of("codec: ternary"), pb::Exchange::paper);
  EXPECT_EQ(clip_of("codec: qsgd_shared"), pb::Exchange::none);
  EXPECT_EQ(clip_of("codec: qsgd_shared_ans"), pb::Exchange::none);
  EXPECT_EQ(clip_of("codec: qsgd_shared, clip: paper"), pb::Exchange::paper);
}

TEST(Keys, AreKeysAndSectionsOfAJob) {
  for (const char* key : {"seed", "train", "train.optimizer.momentum", "servers", "model.net"})
    EXPECT_TRUE(IsKey(key)) << key;
  for (const char* key : {"", ".", "seeds", "seed.", "seed.x", "train.", "train.speed",
                          "servers.address", "train..seed"})
    EXPECT_FALSE(IsKey(key)) << key;
}

TEST(Keys, AreCleared) {
  auto job = Parse(SmallJob());
  ASSERT_TRUE(job.ok());
  job->mutable_train()->mutable_optimizer()->set_momentum(0.5);
  ClearKey("train.optimizer.momentum", &*job);
  EXPECT_FALSE(job->train().optimizer().has_momentum());
  EXPECT_TRUE(job->train().has_optimizer());
  ClearKey("train", &*job);
  EXPECT_FALSE(job->has_train());
  const pb::Job before = *job;
  ClearKey("train.optimizer.momentum", &*job);  // its section is missing
  ClearKey("no.key", &*job);
  EXPECT_TRUE(MessageDifferencer::Equals(*job, before));
}

TEST(JobForRank, AppliesOnlyTheOverridesOfThatRank) {
  const auto job = Parse(SmallJobWith(
      "count: 2",
      "count: 2\n  threads: 3\n  cpus: 0-3\n  overrides:\n    - {rank: 1, threads: 7, cpus: 4}\n"
      "    - {rank: 0, data_dir: /own, device: cuda, gpu: 3}"));
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(JobForRank(*job, 0).workers().threads(), 3u);
  EXPECT_EQ(JobForRank(*job, 0).data().dir(), "/own");
  EXPECT_EQ(JobForRank(*job, 0).workers().cpus(), "0-3");
  EXPECT_EQ(JobForRank(*job, 0).workers().gpu(), 3u);
  EXPECT_EQ(JobForRank(*job, 1).workers().threads(), 7u);
  EXPECT_EQ(JobForRank(*job, 1).workers().cpus(), "4");
  EXPECT_EQ(JobForRank(*job, 1).data().dir(), "/data");
  EXPECT_EQ(JobDigest(JobForRank(*job, 0)), JobDigest(JobForRank(*job, 1)));
}

}  // namespace
}  // namespace tern::config
