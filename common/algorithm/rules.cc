// The table of algorithms with rules of their own. Every function is in the file named after its
// algorithm; dcasgd.cc has two.
#include "common/algorithm/rules.h"

namespace tern::algorithm {

void CheckOdsgd(const pb::Job& job, RuleReporter* reporter);
void CheckDcasgdC(const pb::Job& job, RuleReporter* reporter);
void CheckDcasgdA(const pb::Job& job, RuleReporter* reporter);
void CheckSoftsync(const pb::Job& job, RuleReporter* reporter);
void CheckEasgd(const pb::Job& job, RuleReporter* reporter);

namespace {

struct AlgorithmRules {
  const char* algorithm;
  void (*check)(const pb::Job& job, RuleReporter* reporter);
};

const AlgorithmRules kRules[] = {
    {"odsgd", CheckOdsgd},       {"dcasgd_c", CheckDcasgdC}, {"dcasgd_a", CheckDcasgdA},
    {"softsync", CheckSoftsync}, {"easgd", CheckEasgd},
};

}  // namespace

void CheckOwnRules(const pb::Job& job, RuleReporter* reporter) {
  for (const AlgorithmRules& rules : kRules) {
    if (job.train().algorithm() == rules.algorithm) rules.check(job, reporter);
  }
}

}  // namespace tern::algorithm
