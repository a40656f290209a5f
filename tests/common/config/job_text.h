// Helpers of the tests of common/config: tables of allowed names, a small job as YAML, and the
// errors (faults) of a job as lines.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "common/algorithm/algorithms.h"
#include "common/config/job.h"

namespace tern::config {

// The names that are allowed as values, such as those of models.
inline const NameTables& TestTables() {
  static const NameTables tables = {
      {"models", {"lenet", "cifarnet", "resnet20", "airbench94"}},
      {"codecs",
       {"fp32", "fp16", "bf16", "ternary", "qsgd", "onebit", "topk", "threshold", "adaptive",
        "adacomp", "qsgd_shared", "qsgd_shared_ans"}},
      {"float_codecs", {"fp32", "fp16", "bf16"}},
      {"exact_codecs", {"fp32"}},
      {"rounding_codecs",
       {"fp32", "fp16", "bf16", "onebit", "topk", "threshold", "adaptive", "adacomp"}},
      {"unbiased_codecs",
       {"fp32", "fp16", "bf16", "ternary", "qsgd", "qsgd_shared", "qsgd_shared_ans"}},
      {"sharing_codecs", {"ternary", "qsgd_shared", "qsgd_shared_ans"}},
      {"adding_codecs", {"fp32", "ternary", "qsgd_shared", "qsgd_shared_ans"}},
      {"only_sharing_codecs", {"qsgd_shared", "qsgd_shared_ans"}},
      {"algorithms", algorithm::AlgorithmNames()},
      {"local_updaters", {"none", "sgd", "dcasgd_c", "dcasgd_a"}},
      {"optimizers", {"sgd", "momentum", "nesterov", "adam", "lars", "rmsprop"}},
      {"outer_optimizers", {"sgd", "momentum", "nesterov"}},
      {"schedules", {"fixed", "step", "multistep", "poly", "exponential", "cosine", "one_cycle"}}};
  return tables;
}

// A valid job. The comments are line numbers, which the expected error messages contain.
inline std::string SmallJob() {
  return "servers:\n"                     // 1
         "  - address: 127.0.0.1:7500\n"  // 2
         "workers:\n"                     // 3
         "  count: 2\n"                   // 4
         "model:\n"                       // 5
         "  name: lenet\n"                // 6
         "data:\n"                        // 7
         "  dir: /data\n"                 // 8
         "train:\n"                       // 9
         "  batch_total: 64\n"            // 10
         "  steps: 100\n";                // 11
}

// SmallJob with `from` replaced by `to`, and `more` appended.
inline std::string SmallJobWith(const std::string& from, const std::string& to,
                                const std::string& more = "") {
  std::string text = SmallJob();
  const size_t position = text.find(from);
  if (position != std::string::npos) text.replace(position, from.size(), to);
  return text + more;
}

// Parses a job with TestTables() as the allowed names. `overrides`: KEY=VALUE each.
inline Result<pb::Job> Parse(const std::string& text,
                             const std::vector<std::string>& overrides = {},
                             const std::string& name = "job.yaml") {
  return ParseJob(text, name, overrides, TestTables());
}

// The faults of the job, one per line; empty if it is accepted.
inline std::vector<std::string> FaultsOf(const std::string& text,
                                         const std::vector<std::string>& overrides = {},
                                         const std::string& name = "job.yaml") {
  const Result<pb::Job> job = Parse(text, overrides, name);
  std::vector<std::string> lines;
  std::istringstream in(job.status().message());
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace tern::config
