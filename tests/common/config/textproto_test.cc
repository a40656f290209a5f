// Tests of jobs in protobuf text format. A job is parsed as by protobuf's TextFormat, except that
// some texts are refused (010, True) and that all faults are reported at once.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <string>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kFileName[] = "job.textproto";

// SmallJob in protobuf text format.
std::string SmallTextJob() {
  return "servers { address: '127.0.0.1:7500' }\n"
         "workers { count: 2 }\n"
         "model { name: 'lenet' }\n"
         "data { dir: '/data' }\n"
         "train { batch_total: 64 steps: 100 }\n";
}

TEST(TextJob, EqualsTheYamlJob) {
  const auto textproto_job = Parse(SmallTextJob(), {}, kFileName);
  const auto yaml_job = Parse(SmallJob());
  ASSERT_TRUE(textproto_job.ok()) << textproto_job.status().message();
  ASSERT_TRUE(yaml_job.ok());
  EXPECT_TRUE(MessageDifferencer::Equals(*textproto_job, *yaml_job));
  for (const char* name : {"a.pbtxt", "b.prototxt", "dir/c.textproto"})
    EXPECT_TRUE(Parse(SmallTextJob(), {}, name).ok());
  EXPECT_FALSE(Parse(SmallTextJob(), {}, "job.yaml").ok());
}

// The text has comments, separators, lists, and both kinds of quotes and of brackets.
TEST(TextJob, ParsesLikeTextFormat) {
  const std::string text =
      SmallTextJob() +
      "# a comment\n"
      "name: \"a \\\"quoted\\\" \" 'name'; seed: 7,\n"
      "servers: < address: '[::1]:7501' data_sockets: 2 data_ports: [7601, 7602] >\n"
      "servers { address: 'c:1' data_sockets: 2 data_ports: 3 data_ports: 4 bind_host: '::' }\n"
      "security: none\n"
      "exchange { rules: [{codec: 'fp32'}, {codec: 'fp16' max_elements: 5}] rules {codec: 'fp32'} "
      "}\n"
      "data { }";
  const std::string text_without_duplicate = text.substr(0, text.rfind("data {"));
  const auto job = Parse(text_without_duplicate, {}, kFileName);
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->exchange().rules_size(), 3);
  EXPECT_EQ(job->servers(1).data_ports(1), 7602u);
  pb::Job parsed_by_protobuf;
  ASSERT_TRUE(TextFormat::ParseFromString(text_without_duplicate, &parsed_by_protobuf));
  const auto parsed_again = ParseJob(parsed_by_protobuf.DebugString(), kFileName, {}, TestTables());
  ASSERT_TRUE(parsed_again.ok()) << parsed_again.status().message();
  EXPECT_TRUE(MessageDifferencer::Equals(*job, *parsed_again));
  EXPECT_THAT(FaultsOf(text, {}, kFileName),
              ElementsAre(HasSubstr(": data: saw the key a second time")));
}

TEST(TextJob, ReportsAllFaultsAtOnce) {
  const std::string text =
      "servers { address: '127.0.0.1:7500' data_ports: 70000 }\n"
      "workers { cuont: 2 }\n"
      "model { name: lenet }\n"
      "data { dir: '/data' scale: inf }\n"
      "train { batch_total: 010 steps: -1 weight_decay { biases: True } }\n"
      "exchange { clip: 2 }\n";
  EXPECT_THAT(
      FaultsOf(text, {}, kFileName),
      ElementsAre(
          AllOf(StartsWith("job.textproto:1:49: servers[0].data_ports[0]: saw 70000"),
                HasSubstr("allowed: a whole number, 1 to 65535")),
          AllOf(StartsWith("job.textproto:2:11: workers.cuont: "),
                HasSubstr("mean workers.count?")),
          StartsWith("job.textproto:3:15: model.name: saw lenet without quotes"),
          StartsWith("job.textproto:4:28: data.scale: saw inf; allowed: a number"),
          StartsWith("job.textproto:5:22: train.batch_total: saw 010"),
          StartsWith("job.textproto:5:33: train.steps: saw -1"),
          StartsWith("job.textproto:5:59: train.weight_decay.biases: saw True; allowed: true or"),
          StartsWith("job.textproto:6:18: exchange.clip: saw 2; allowed: one of paper")));
}

TEST(TextJob, RefusesDuplicateKeys) {
  EXPECT_THAT(
      FaultsOf(SmallTextJob() + "seed: 1\nseed: 2\nworkers { threads: 2 }\n", {}, kFileName),
      ElementsAre(StartsWith("job.textproto:7:1: seed: saw the key a second time"),
                  StartsWith("job.textproto:8:1: workers: saw the key a second time")));
}

TEST(TextJob, ReportsThePositionOfASyntaxError) {
  EXPECT_THAT(FaultsOf(SmallTextJob() + "train { steps 5 }", {}, kFileName),
              ElementsAre(AllOf(StartsWith("job.textproto:6:15: saw invalid protobuf text"),
                                HasSubstr("'5'"))));
  EXPECT_THAT(FaultsOf(SmallTextJob() + "train {", {}, kFileName),
              ElementsAre(HasSubstr("expected before the end")));
  EXPECT_THAT(FaultsOf(SmallTextJob() + "name: 'abc", {}, kFileName),
              ElementsAre(StartsWith("job.textproto:6:")));
  EXPECT_THAT(FaultsOf("[tern.pb.rule] { min: 1 }", {}, kFileName),
              ElementsAre(HasSubstr("name of a key")));
}

TEST(TextJob, LimitsDepthAndNodes) {
  std::string deep_nesting;
  for (int i = 0; i < 50000; ++i) deep_nesting += "a<";
  EXPECT_THAT(FaultsOf(deep_nesting, {}, kFileName),
              ElementsAre(HasSubstr("saw more than 16 levels")));
  std::string many_keys;
  for (int i = 0; i < 20000; ++i) many_keys += "a:1 ";
  EXPECT_THAT(FaultsOf(many_keys, {}, kFileName),
              ElementsAre(HasSubstr("saw more than 10000 keys and values")));
  EXPECT_THAT(FaultsOf(std::string("a: ") + std::string(50000, '['), {}, kFileName),
              ElementsAre(HasSubstr("invalid protobuf text")));
}

TEST(TextJob, AppliesOverrides) {
  const auto job = Parse(SmallTextJob(), {"train.steps=7"}, kFileName);
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->train().steps(), 7u);
}

}  // namespace
}  // namespace tern::config
