// The table of algorithms with rules or defaults of their own. Every function is in the file named
// after its algorithm; dcasgd.cc has those of two.
#include "common/algorithm/rules.h"

namespace tern::algorithm {

void CheckOdsgd(const pb::Job& job, RuleReporter* reporter);
void CheckDcasgdC(const pb::Job& job, RuleReporter* reporter);
void CheckDcasgdA(const pb::Job& job, RuleReporter* reporter);
void CheckSoftsync(const pb::Job& job, RuleReporter* reporter);
void CheckEasgd(const pb::Job& job, RuleReporter* reporter);
void CheckPqasgd(const pb::Job& job, RuleReporter* reporter);
void FillOdsgd(pb::Job* job);
std::string WarnOfOdsgd(const pb::Job& job, uint64_t steps_per_epoch);
void DropWarmupOfOdsgd(pb::Job* job);
void FillDcasgdC(pb::Job* job);
void FillDcasgdA(pb::Job* job);

namespace {

struct AlgorithmRules {
  const char* algorithm;
  void (*check)(const pb::Job& job, RuleReporter* reporter);
  void (*fill)(pb::Job* job) = nullptr;  // null: no defaults of its own
  std::string (*warn)(const pb::Job& job, uint64_t steps_per_epoch) = nullptr;
  void (*drop_warmup)(pb::Job* job) = nullptr;
};

const AlgorithmRules kRules[] = {
    {"odsgd", CheckOdsgd, FillOdsgd, WarnOfOdsgd, DropWarmupOfOdsgd},
    {"dcasgd_c", CheckDcasgdC, FillDcasgdC},
    {"dcasgd_a", CheckDcasgdA, FillDcasgdA},
    {"softsync", CheckSoftsync},
    {"easgd", CheckEasgd},
    {"pqasgd", CheckPqasgd},
};

}  // namespace

void FillOwnDefaults(pb::Job* job) {
  for (const AlgorithmRules& rules : kRules) {
    if (job->train().algorithm() == rules.algorithm && rules.fill != nullptr) rules.fill(job);
  }
}

std::string WarningOfAlgorithm(const pb::Job& job, uint64_t steps_per_epoch) {
  for (const AlgorithmRules& rules : kRules) {
    if (job.train().algorithm() == rules.algorithm && rules.warn != nullptr)
      return rules.warn(job, steps_per_epoch);
  }
  return "";
}

void DropWarmup(pb::Job* job) {
  for (const AlgorithmRules& rules : kRules) {
    if (job->train().algorithm() == rules.algorithm && rules.drop_warmup != nullptr)
      rules.drop_warmup(job);
  }
}

void CheckOwnRules(const pb::Job& job, RuleReporter* reporter) {
  for (const AlgorithmRules& rules : kRules) {
    if (job.train().algorithm() == rules.algorithm) rules.check(job, reporter);
  }
}

}  // namespace tern::algorithm
