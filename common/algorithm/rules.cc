// The table of algorithms with rules or defaults of their own. Every function is in the file named
// after its algorithm; dcasgd.cc has those of two.
#include "common/algorithm/rules.h"

#include "common/algorithm/facts.h"
#include "common/base/text.h"

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

// In a job that is no longer than a period, workers exchange nothing if the exchange takes place in
// the step after the period. Without rounds they go on to the end of the period.
std::string WarningOfLongPeriod(const pb::Job& job, uint64_t steps_per_epoch) {
  const Facts facts = FactsOf(job);
  const pb::Train& train = job.train();
  const double steps = train.has_epochs() ? train.epochs() * static_cast<double>(steps_per_epoch)
                                          : static_cast<double>(train.steps());
  const auto period = static_cast<double>(facts.period);
  if (steps == 0) return "";
  if (!facts.has_rounds) {
    if (steps >= period) return "";
    return Cat("workers with ", train.algorithm(), " push every ", facts.period,
               " steps, and the job has ", steps, ": each worker takes ", facts.period, " or more");
  }
  if (!facts.exchanges_in_next_step || steps > period) return "";
  return Cat("workers with ", train.algorithm(), " exchange weights every ", facts.period,
             " steps, and the job has ", steps, ": the result is the first weights");
}

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
  return WarningOfLongPeriod(job, steps_per_epoch);
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
