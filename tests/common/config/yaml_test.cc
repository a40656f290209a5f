// Tests of jobs in YAML: parsing, and errors that are found before validation.
#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(YamlJob, ReadsEveryKindOfValue) {
  const auto job = Parse(SmallJobWith("count: 2", "count: 2\n  overrides: [{rank: 1, threads: 3}]",
                                      "  weight_decay: {rate: 5e-4, where: local, biases: true}\n"
                                      "name: \"a name\"\nseed: 18446744073709551615\n"
                                      "evaluation:\n"));
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->servers(0).address(), "127.0.0.1:7500");
  EXPECT_EQ(job->workers().count(), 2u);
  EXPECT_EQ(job->workers().overrides(0).threads(), 3u);
  EXPECT_EQ(job->train().weight_decay().rate(), 5e-4);
  EXPECT_EQ(job->train().weight_decay().where(), pb::WeightDecay::local);
  EXPECT_TRUE(job->train().weight_decay().biases());
  EXPECT_EQ(job->name(), "a name");
  EXPECT_EQ(job->seed(), 18446744073709551615u);
}

TEST(YamlJob, FillsInDefaults) {
  const auto job = Parse(SmallJob());
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_TRUE(job->has_seed());
  EXPECT_EQ(job->exchange().codec(), "ternary");
  EXPECT_TRUE(job->exchange().has_codec());
  EXPECT_TRUE(job->faults().has_dead_after_s());
  EXPECT_FALSE(job->train().has_epochs());
  EXPECT_FALSE(job->model().has_net());
}

TEST(YamlJob, ReadsANetwork) {
  const auto job =
      Parse(SmallJobWith("  name: lenet\n",
                         "  net:\n"
                         "    name: tiny\n"
                         "    input: {channels: 1, height: 28, width: 28}\n"
                         "    classes: 10\n"
                         "    layers:\n"
                         "      - name: fc\n"
                         "        dense: {outputs: 10, weight_init: {normal_std: 0.1}}\n"
                         "      - softmax_loss: {}\n"
                         "        inputs: [fc, label]\n"));
  ASSERT_TRUE(job.ok()) << job.status().message();
  const pb::NetDef& net = job->model().net();
  ASSERT_EQ(net.layers_size(), 2);
  EXPECT_EQ(net.layers(0).dense().weight_init().normal_std(), 0.1f);
  EXPECT_TRUE(net.layers(1).has_softmax_loss());
  EXPECT_EQ(net.layers(1).inputs(1), "label");
}

TEST(YamlJob, RefusesTwoKindsInOneLayer) {
  EXPECT_THAT(
      FaultsOf(SmallJobWith("name: lenet", "net: {layers: [{relu: {}, softmax_loss: {}}]}")),
      ElementsAre(HasSubstr("model.net.layers[0].softmax_loss: saw softmax_loss beside relu")));
}

TEST(YamlJob, SuggestsTheNearestKey) {
  EXPECT_THAT(
      FaultsOf(SmallJobWith("steps: 100", "stesp: 100",
                            "momentum: 1\nexchange: {bukcet_kib: 4, xyzzy: 1}\n")),
      ElementsAre(
          StartsWith("job.yaml:11:3: train.stesp: saw an unknown key; did you mean train.steps? "
                     "Allowed: one of algorithm, "),
          StartsWith("job.yaml:12:1: momentum: saw an unknown key; did you mean "
                     "train.optimizer.momentum? Allowed: one of name, seed, "),
          StartsWith("job.yaml:13:12: exchange.bukcet_kib: saw an unknown key; did you mean "
                     "exchange.bucket_kib? Allowed: "),
          StartsWith("job.yaml:13:27: exchange.xyzzy: saw an unknown key; allowed: one of codec")));
}

// The layer that has the key may be another kind of layer in this job.
TEST(YamlJob, SuggestsAKeyOfAListWithoutAnIndex) {
  EXPECT_THAT(
      FaultsOf(SmallJobWith("name: lenet",
                            "net: {layers: [{standardize: {}}, {avg_pool: {outputs: 3}}]}")),
      Contains(HasSubstr("model.net.layers[1].avg_pool.outputs: saw an unknown key; did you "
                         "mean model.net.layers[].conv.outputs? Allowed: ")));
}

TEST(YamlJob, NamesTheNewNameOfARenamedKey) {
  const std::string expected_error =
      "saw a key that is called checkpoints.shard_every_steps now; allowed: "
      "checkpoints.shard_every_steps";
  EXPECT_THAT(FaultsOf(SmallJob() + "faults: {snapshot_every_steps: 5}\n",
                       {"faults.snapshot_every_steps=5"}),
              ElementsAre("job.yaml:12:10: faults.snapshot_every_steps: " + expected_error,
                          "--set faults.snapshot_every_steps=5: faults.snapshot_every_steps: " +
                              expected_error));
}

TEST(YamlJob, NamesTheNewNameOfEveryRenamedKey) {
  const std::pair<std::string, std::string> renamed[] = {
      {"data.deviation", "data.std"},
      {"exchange.adacomp.bin", "exchange.adacomp.bin_elements"},
      {"exchange.onebit.bucket", "exchange.onebit.bucket_elements"},
      {"exchange.qsgd.bucket", "exchange.qsgd.bucket_elements"},
      {"model.width", "model.width_multiplier"},
      {"train.dcasgd_a.formed", "train.dcasgd_a.compensation"},
      {"train.dcasgd_a.ms_scope", "train.dcasgd_a.mean_square_scope"},
      {"train.dcasgd_c.formed", "train.dcasgd_c.compensation"},
      {"train.dcasgd_c.ms_scope", "train.dcasgd_c.mean_square_scope"},
      {"train.optimizer.trust", "train.optimizer.trust_coefficient"},
      {"train.schedule.divide_first", "train.schedule.div_factor"},
      {"train.schedule.divide_last", "train.schedule.total_div_factor"},
      {"train.schedule.rise", "train.schedule.pct_start"},
      {"train.schedule.warmup_from", "train.schedule.warmup_start_factor"},
      {"train.ssp.weight", "train.ssp.push_weight"},
  };
  for (const auto& [old_key, new_key] : renamed) {
    EXPECT_THAT(FaultsOf(SmallJob(), {old_key + "=1"}),
                Contains("--set " + old_key + "=1: " + old_key + ": saw a key that is called " +
                         new_key + " now; allowed: " + new_key));
    EXPECT_THAT(FaultsOf(SmallJob(), {new_key + "=x"}),
                Contains(HasSubstr(new_key + ": saw x; allowed: ")))
        << new_key;
  }
}

TEST(YamlJob, RefusesDuplicateKeys) {
  EXPECT_THAT(
      FaultsOf(SmallJobWith("steps: 100", "steps: 100\n  steps: 200")),
      ElementsAre("job.yaml:12:3: train.steps: saw the key a second time; allowed: each key once"));
  EXPECT_THAT(FaultsOf(SmallJob() + "workers: {count: 3}\n"),
              ElementsAre(StartsWith("job.yaml:12:1: workers: saw the key a second time")));
}

TEST(YamlJob, RefusesAliasesAnchorsAndTags) {
  EXPECT_THAT(FaultsOf(SmallJobWith("count: 2", "count: &n 2", "evaluation: {batch: *n}\n")),
              ElementsAre(StartsWith("job.yaml:4:10: workers.count: saw an anchor (&)"),
                          StartsWith("job.yaml:12:21: evaluation.batch: saw an alias (*)")));
  EXPECT_THAT(
      FaultsOf(SmallJobWith("count: 2", "count: !!int 2")),
      ElementsAre(StartsWith("job.yaml:4:10: workers.count: saw the tag tag:yaml.org,2002:int")));
  EXPECT_THAT(FaultsOf(SmallJob() + "<<: {name: a}\n"),
              ElementsAre(StartsWith("job.yaml:12:1: <<: saw an unknown")));
}

TEST(YamlJob, DoesNotExpandAnAliasBomb) {
  std::string alias_bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string previous_list = "*a" + std::to_string(i - 1);
    alias_bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + previous_list;
    for (int k = 0; k < 8; ++k) alias_bomb += "," + previous_list;
    alias_bomb += "]\n";
  }
  EXPECT_THAT(FaultsOf(SmallJob() + alias_bomb), ::testing::Contains(HasSubstr("saw an alias")));
}

TEST(YamlJob, RefusesASecondDocument) {
  EXPECT_THAT(FaultsOf(SmallJob() + "---\n" + SmallJob()),
              ElementsAre(StartsWith("job.yaml:12:1: saw a second document")));
  EXPECT_THAT(FaultsOf("---\n" + SmallJob() + "...\n"), ElementsAre());
}

TEST(YamlJob, RefusesInvalidYaml) {
  EXPECT_THAT(FaultsOf(SmallJobWith("count: 2", "count: [2")),
              ElementsAre(HasSubstr("saw invalid YAML")));
  EXPECT_THAT(FaultsOf(SmallJob() + "name: \"never closed\n"),
              ElementsAre(HasSubstr("saw invalid YAML")));
  EXPECT_THAT(FaultsOf(SmallJobWith("127.0.0.1:7500", "[::1]:7500")),
              ElementsAre(AllOf(StartsWith("job.yaml:2:"), HasSubstr("in quotes"))));
  EXPECT_THAT(FaultsOf("- a\n- b\n"),
              ElementsAre(StartsWith("job.yaml:1:1: saw a list; allowed: a map")));
  EXPECT_THAT(FaultsOf("hello\n"),
              ElementsAre(StartsWith("job.yaml:1:1: saw hello; allowed: a map")));
}

TEST(YamlJob, RefusesBytesThatAreNotPrintable) {
  EXPECT_THAT(FaultsOf(SmallJob() + "name: f\xfcr\n"),
              ElementsAre(StartsWith("job.yaml:12:8: saw the byte \\xfc")));
  EXPECT_THAT(FaultsOf(SmallJob() + std::string("name: a\0b\n", 10)),
              ElementsAre(StartsWith("job.yaml:12:8: saw the byte \\x00")));
  EXPECT_THAT(FaultsOf(SmallJob() + "name: \"a\\x07\"\n"),
              ElementsAre("job.yaml:12:7: name: saw a\\x07; allowed: a text of printable UTF-8"));
  EXPECT_THAT(FaultsOf("\xef\xbb\xbf" + SmallJob() + "name: f\xc3\xbcr\n"), ElementsAre());
}

TEST(YamlJob, LimitsDepthNodesAndSize) {
  EXPECT_THAT(FaultsOf(std::string(100000, '[')),
              ElementsAre(HasSubstr("saw more than 16 levels")));
  std::string open_braces;
  for (int i = 0; i < 20000; ++i) open_braces += "{a: ";
  EXPECT_THAT(FaultsOf(open_braces), ElementsAre(HasSubstr("saw more than 16 levels")));
  std::string long_list = SmallJob() + "x: [";
  for (int i = 0; i < 20000; ++i) long_list += "1,";
  EXPECT_THAT(FaultsOf(long_list + "]\n"),
              ElementsAre(HasSubstr("saw more than 10000 keys and values")));
  EXPECT_THAT(FaultsOf(SmallJob() + std::string(1 << 20, '#')),
              ElementsAre(HasSubstr("more than 1048576 bytes")));
  EXPECT_THAT(FaultsOf(SmallJob() + std::string(1 << 19, '#')), ElementsAre());
}

// A key, a value not of the key's type, and the allowed values as the expected error names them.
struct MistypedCase {
  const char* key;
  const char* value;
  const char* allowed_values;
};
class MistypedValue : public ::testing::TestWithParam<MistypedCase> {};
TEST_P(MistypedValue, IsRefusedWithTheAllowedValues) {
  const MistypedCase& mistyped = GetParam();
  const std::string key = mistyped.key;
  const size_t dot_position = key.find('.');
  const std::string section = key.substr(0, dot_position), name = key.substr(dot_position + 1);
  std::string text = SmallJob();
  const size_t old_line_begin = text.find("  " + name + ":");
  if (old_line_begin != std::string::npos)
    text.erase(old_line_begin, text.find('\n', old_line_begin) + 1 - old_line_begin);
  const size_t section_begin = text.find(section + ":\n");
  const std::string new_line = "  " + name + ": " + mistyped.value + "\n";
  if (section_begin != std::string::npos) {
    text.insert(section_begin + section.size() + 2, new_line);
  } else {
    text += section + ":\n" + new_line;
  }
  EXPECT_THAT(FaultsOf(text),
              ElementsAre(AllOf(HasSubstr(": " + key + ": saw "),
                                HasSubstr(std::string("llowed: ") + mistyped.allowed_values))))
      << text;
}
INSTANTIATE_TEST_SUITE_P(
    YamlJob, MistypedValue,
    ::testing::Values(MistypedCase{"workers.count", "010", "a whole number, 1 to 1024"},
                      MistypedCase{"workers.count", "0x2", "a whole"},
                      MistypedCase{"workers.count", "0o2", "a whole"},
                      MistypedCase{"workers.count", "2.0", "a whole"},
                      MistypedCase{"workers.count", "2e0", "a whole"},
                      MistypedCase{"workers.count", "+2", "a whole"},
                      MistypedCase{"workers.count", "-2", "a whole"},
                      MistypedCase{"workers.count", "1_0", "a whole"},
                      MistypedCase{"workers.count", "\"2\"", "a whole"},
                      MistypedCase{"workers.count", "two", "a whole"},
                      MistypedCase{"workers.count", "[2]", "a whole"},
                      MistypedCase{"workers.count", "{a: 2}", "a whole"},
                      MistypedCase{"workers.count", "", "a whole"},
                      MistypedCase{"workers.count", "null", "a whole"},
                      MistypedCase{"workers.count", "4294967296", "a whole"},
                      MistypedCase{"train.batch_total", "64 ternary", "a whole"},
                      MistypedCase{"train.steps", "18446744073709551616",
                                   "a whole number, at least 1"},
                      MistypedCase{"data.scale", ".nan", "a number"},
                      MistypedCase{"data.scale", "nan", "a number"},
                      MistypedCase{"data.scale", ".inf", "a number"},
                      MistypedCase{"data.scale", "-inf", "a number"},
                      MistypedCase{"data.scale", "1e999", "a number"},
                      MistypedCase{"data.scale", "0x1p3", "a number"},
                      MistypedCase{"data.scale", "01.5", "a number"},
                      MistypedCase{"data.scale", "1,5", "a number"},
                      MistypedCase{"data.format", "id", "one of idx, cifar10"},
                      MistypedCase{"data.format", "0", "one of idx"},
                      MistypedCase{"data.partition", "Shared", "one of shared, by_sample"},
                      MistypedCase{"data.dir", "[a]", "a text"},
                      MistypedCase{"data.dir", "", "a text"},
                      MistypedCase{"data.dir", "\"\"", "a text"},
                      MistypedCase{"workers.overrides", "3", "a list"},
                      MistypedCase{"workers.overrides", "{rank: 1}", "a list"},
                      MistypedCase{"train.optimizer", "sgd", "a map of the keys name, momentum"}));

TEST(YamlJob, AcceptsOnlyTrueAndFalseAsBooleans) {
  for (const char* value : {"yes", "no", "on", "True", "TRUE", "1", "0", "t", "\"true\""}) {
    EXPECT_THAT(FaultsOf(SmallJob() + "  weight_decay: {biases: " + value + "}\n"),
                ElementsAre(AllOf(HasSubstr("12:26: train.weight_decay.biases: saw"),
                                  HasSubstr("allowed: true or false"))))
        << value;
  }
}

TEST(YamlJob, SuggestsTheNearestName) {
  EXPECT_THAT(
      FaultsOf(SmallJobWith("lenet", "letnet", "exchange: {codec: ternery, clip: papr}\n")),
      ElementsAre(
          "job.yaml:6:9: model.name: saw letnet; did you mean lenet? Allowed: one of lenet, "
          "cifarnet, resnet20, airbench94",
          "job.yaml:12:19: exchange.codec: saw ternery; did you mean ternary? Allowed: one "
          "of fp32, fp16, bf16, ternary, qsgd, onebit, topk, threshold, adaptive, adacomp, "
          "qsgd_shared, qsgd_shared_ans",
          "job.yaml:12:34: exchange.clip: saw papr; did you mean paper? Allowed: one of "
          "paper, official, grace, none"));
}

}  // namespace
}  // namespace tern::config
