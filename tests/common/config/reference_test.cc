// Tests of the files in configs/: reference.yaml shows every key of job.proto with its default, and
// every file is a valid job.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "common/algorithm/algorithms.h"
#include "common/config/fill.h"
#include "common/config/yaml.h"
#include "tests/common/config/every_key.h"
#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using ::testing::ElementsAre;

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream content;
  content << in.rdbuf();
  EXPECT_TRUE(in.good()) << path;
  return content.str();
}

// The reference with its commented-out keys ("#  key: ...") enabled.
std::string EnableAllKeys(const std::string& reference) {
  std::istringstream in(reference);
  std::string enabled_text;
  for (std::string line; std::getline(in, line);) {
    enabled_text += (line.rfind("#  ", 0) == 0 ? line.substr(1) : line) + "\n";
  }
  return enabled_text;
}

// Every key below `type`, like "exchange.rules.codec", without the numbers of list items.
void CollectKeys(const Descriptor* type, const std::string& prefix, std::set<std::string>* keys) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const std::string key = Join(prefix, field->name());
    keys->insert(key);
    if (field->message_type() != nullptr) CollectKeys(field->message_type(), key, keys);
  }
}

// A key without the numbers of list items: "a[1].b" becomes "a.b".
std::string WithoutNumbers(const std::string& key) {
  std::string text;
  bool in_brackets = false;
  for (const char c : key) {
    if (c == '[') in_brackets = true;
    if (!in_brackets) text += c;
    if (c == ']') in_brackets = false;
  }
  return text;
}

// Replaces keys that have the same meaning in several layers by one common name, because the
// reference shows them only once: those of initializers and of pooling layers.
std::set<std::string> MergeSharedKeys(const std::set<std::string>& keys) {
  std::set<std::string> merged_keys;
  for (std::string key : keys) {
    for (const std::string layer : {"conv", "dense", "batch_norm"}) {
      for (const std::string init : {".weight_init.", ".bias_init."}) {
        const std::string key_prefix = "model.net.layers." + layer + init;
        if (key.rfind(key_prefix, 0) == 0) key = "any init." + key.substr(key_prefix.size());
      }
    }
    for (const std::string key_prefix :
         {"model.net.layers.max_pool.", "model.net.layers.avg_pool."})
      if (key.rfind(key_prefix, 0) == 0) key = "any pool." + key.substr(key_prefix.size());
    merged_keys.insert(key);
  }
  return merged_keys;
}

// configs/reference.yaml with all keys enabled, even those that exclude each other.
struct Reference {
  pb::Job job;
  KeyPositions key_positions;
  Status parse_status;
};

Reference ReadReference() {
  Reference reference;
  Faults faults("reference.yaml", {});
  const Node root = ParseYaml(EnableAllKeys(ReadText("configs/reference.yaml")), "", -1, &faults);
  FillMessage(root, "", &reference.job, {TestTables(), &faults, &reference.key_positions});
  reference.parse_status = faults.ToStatus();
  return reference;
}

TEST(ReferenceYaml, IsAValidJob) {
  const auto job = LoadJob("configs/reference.yaml", {}, TestTables());
  ASSERT_TRUE(job.ok()) << job.status().message();
}

TEST(ReferenceYaml, HasEveryKeyOfTheProto) {
  const Reference reference = ReadReference();
  ASSERT_TRUE(reference.parse_status.ok())
      << reference.parse_status.message();  // an unknown key would be an error
  std::set<std::string> keys_of_proto, keys_of_file;
  CollectKeys(pb::Job::descriptor(), "", &keys_of_proto);
  for (const auto& [key, position] : reference.key_positions)
    keys_of_file.insert(WithoutNumbers(key));
  EXPECT_THAT(MergeSharedKeys(keys_of_file),
              ::testing::ContainerEq(MergeSharedKeys(keys_of_proto)));
}

TEST(ReferenceYaml, HasTheDefaultsOfTheProto) {
  Reference reference = ReadReference();
  int num_compared = 0;
  ForEachScalar(&reference.job, "", false,
                [&](Message* message, const FieldDescriptor* field, const std::string& key, bool) {
                  if (!field->has_default_value()) return;
                  const std::unique_ptr<Message> empty(message->New());
                  std::string value_in_file, default_value;
                  TextFormat::PrintFieldValueToString(*message, field, -1, &value_in_file);
                  TextFormat::PrintFieldValueToString(*empty, field, -1, &default_value);
                  EXPECT_EQ(value_in_file, default_value) << key;
                  ++num_compared;
                });
  EXPECT_GE(num_compared, 95);
}

// In the reference's job, each algorithm's section in turn, as the reference shows it, takes the
// place of section ssgd.
TEST(ReferenceYaml, ShowsValidSections) {
  const Reference reference = ReadReference();
  const auto reference_job = LoadJob("configs/reference.yaml", {}, TestTables());
  ASSERT_TRUE(reference_job.ok()) << reference_job.status().message();
  for (const std::string& name : algorithm::AlgorithmNames()) {
    pb::Job job = *reference_job;
    pb::Train& train = *job.mutable_train();
    train.clear_ssgd();
    train.clear_parameters();
    train.set_algorithm(name);
    const FieldDescriptor* section = pb::Train::descriptor()->FindFieldByName(name);
    const auto* reflection = train.GetReflection();
    reflection->MutableMessage(&train, section)
        ->CopyFrom(reflection->GetMessage(reference.job.train(), section));
    // As the comments of section odsgd say, some of its keys are for local.name dcasgd_a,
    // warmup_epochs excludes warmup_steps, and learning_rate_times learning_rate.
    if (train.has_odsgd()) {
      train.mutable_odsgd()->mutable_local()->set_name("dcasgd_a");
      train.mutable_odsgd()->clear_warmup_epochs();
      train.mutable_odsgd()->mutable_local()->clear_learning_rate_times();
    }
    // As the comments of section pqasgd say, some of its keys are for fragments above 1.
    if (train.has_pqasgd()) train.mutable_pqasgd()->set_fragments(2);
    job.mutable_exchange()->set_codec("fp32");
    job.mutable_exchange()->clear_rules();
    const auto parsed_again = Parse(ToYaml(job));
    EXPECT_TRUE(parsed_again.ok()) << name << ": " << parsed_again.status().message();
  }
}

TEST(ReferenceYaml, ExplainsEveryKey) {
  // Each key, except those of top-level sections, has a comment beside itself, above itself, or
  // above its group of adjacent keys.
  std::istringstream in(ReadText("configs/reference.yaml"));
  bool is_explained = false;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) is_explained = false;
    if (line.find("# ") != std::string::npos) is_explained = true;
    const bool is_top_level = !line.empty() && line[0] != ' ' && line[0] != '#';
    if (is_top_level && line.back() == ':') is_explained = true;
    EXPECT_TRUE(line.empty() || is_explained) << line;
  }
}

TEST(Configs, AreAllValidAndSetNoKeyWithoutEffect) {
  int num_jobs = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.is_directory()) continue;  // tests/setup/papers_test.cc has those of papers/
    std::vector<std::string> warnings;
    const auto job = LoadJob(entry.path(), {}, TestTables(), {}, &warnings);
    EXPECT_TRUE(job.ok()) << job.status().message();
    if (entry.path().filename() == "reference.yaml") warnings.clear();  // It sets every key.
    EXPECT_THAT(warnings, ::testing::IsEmpty());
    ++num_jobs;
  }
  EXPECT_GE(num_jobs, 2);
}

TEST(Corpus, HasAValidJobForTheFuzzer) {
  for (const char* name : {"every_key", "ssp", "reference", "lenet_fashion"}) {
    const auto job =
        LoadJob("tests/fuzz/corpus/job/" + std::string(name) + ".yaml", {}, TestTables());
    EXPECT_TRUE(job.ok()) << job.status().message();
  }
}

TEST(Configs, LenetFashionIsTheJobOfTheQuickstart) {
  const auto job = LoadJob("configs/lenet_fashion.yaml", {}, TestTables());
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->servers_size(), 1);
  EXPECT_EQ(job->workers().count(), 2u);
  EXPECT_EQ(job->train().batch_total(), 64u);
  EXPECT_EQ(job->train().steps(), 3000u);
  EXPECT_EQ(job->train().optimizer().momentum(), 0.9);
  EXPECT_EQ(job->train().schedule().name(), "poly");
  EXPECT_EQ(job->train().schedule().learning_rate(), 0.01);
  EXPECT_EQ(job->train().schedule().power(), 0.5);
  EXPECT_EQ(job->train().weight_decay().rate(), 5e-4);
  EXPECT_EQ(job->train().weight_decay().where(), pb::WeightDecay::in_gradient);
  EXPECT_EQ(job->exchange().codec(), "ternary");
  EXPECT_EQ(job->exchange().rules_size(), 0);
}

}  // namespace
}  // namespace tern::config
