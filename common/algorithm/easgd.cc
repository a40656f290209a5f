#include "common/algorithm/ranks.h"
#include "common/algorithm/rules.h"

namespace tern::algorithm {

// In synchronous EASGD every round moves the servers' centre weights towards each worker's weights
// by alpha times their difference, so alpha times the number of workers must be below 1.
void CheckEasgd(const pb::Job& job, RuleReporter* reporter) {
  const double alpha = job.train().easgd().alpha(), num_workers = algorithm::NumRanks(job);
  const std::string key = "train.easgd.alpha";
  if (num_workers * alpha < 1 || !reporter->AreValid({key, "workers.count"})) return;
  reporter->ReportNumber(key, alpha,
                         "less than 1 / workers.count (" + std::to_string(job.workers().count()) +
                             "): with N workers EASGD diverges for N alpha >= 1");
}

}  // namespace tern::algorithm
