#include "common/algorithm/rules.h"

namespace tern::algorithm {

void CheckSoftsync(const pb::Job& job, RuleReporter* reporter) {
  const uint32_t n = job.train().softsync().n(), workers = job.workers().count();
  const std::string key = "train.softsync.n";
  if (n <= workers || !reporter->AreValid({key, "workers.count"})) return;
  reporter->Report(key, std::to_string(n),
                   "at most workers.count (" + std::to_string(workers) + ")");
}

}  // namespace tern::algorithm
