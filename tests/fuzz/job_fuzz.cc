// Fuzzes the parser of jobs (training configurations): parses arbitrary bytes as a YAML file, as a
// text proto file, and (fewer than 256 bytes) as a command-line override. A valid job must stay the
// same after conversion to YAML and back; an invalid job must give an error message.
#include <google/protobuf/util/message_differencer.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/algorithm/algorithms.h"
#include "common/config/job.h"

namespace {

using tern::config::NameTables;
using tern::config::ParseJob;

// Aborts with a message if `condition` is false.
void Require(bool condition, const char* what, const std::string& text) {
  if (condition) return;
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

// Parses the text as a job file of this name, with these overrides, and checks the result.
void CheckParse(const std::string& text, const std::string& name,
                const std::vector<std::string>& overrides) {
  static const NameTables tables = {
      {"models", {"lenet"}},
      {"codecs", {"fp32", "fp16", "bf16", "ternary", "qsgd", "onebit", "topk", "qsgd_shared"}},
      {"float_codecs", {"fp32", "fp16", "bf16"}},
      {"exact_codecs", {"fp32"}},
      {"rounding_codecs", {"fp32", "fp16", "bf16", "onebit", "topk"}},
      {"unbiased_codecs", {"fp32", "fp16", "bf16", "ternary", "qsgd", "qsgd_shared"}},
      {"sharing_codecs", {"ternary", "qsgd_shared"}},
      {"adding_codecs", {"fp32", "ternary", "qsgd_shared"}},
      {"only_sharing_codecs", {"qsgd_shared"}},
      {"algorithms", tern::algorithm::AlgorithmNames()},
      {"local_updaters", {"none", "sgd", "dcasgd_c", "dcasgd_a"}},
      {"optimizers", {"sgd", "momentum", "nesterov", "adam", "lars", "rmsprop"}},
      {"outer_optimizers", {"sgd", "momentum", "nesterov"}},
      {"schedules", {"fixed", "step", "multistep", "poly", "exponential", "cosine", "one_cycle"}}};
  const auto job = ParseJob(text, name, overrides, tables);
  if (!job.ok()) {
    Require(job.status().code() == tern::Code::kBadJob && !job.status().message().empty(),
            "refused without a reason", text);
    return;
  }
  const std::string yaml = tern::config::ToYaml(*job);
  const auto parsed_again = ParseJob(yaml, "again.yaml", {}, tables);
  Require(parsed_again.ok(), "the written job is refused", yaml);
  Require(google::protobuf::util::MessageDifferencer::Equals(*job, *parsed_again),
          "the written job differs", yaml);
  Require(tern::config::JobDigest(*job) == tern::config::JobDigest(*parsed_again),
          "the written job has another digest", yaml);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckParse(text, "job.yaml", {});
  CheckParse(text, "job.textproto", {});
  if (size < 256) {
    static const std::string base_job =
        "servers: [{address: 127.0.0.1:7500}]\nworkers: {count: 2}\nmodel: {name: lenet}\n"
        "data: {dir: /d}\ntrain: {batch_total: 64, steps: 10}\n";
    CheckParse(base_job, "job.yaml", {text});
  }
  return 0;
}
