#include "common/algorithm/ranks.h"
#include "common/algorithm/rules.h"
#include "common/base/text.h"

namespace tern::algorithm {

// In synchronous EASGD every round moves the servers' centre weights towards each worker's weights
// by alpha times their difference, so alpha times the number of workers must be below 1.
void CheckEasgd(const pb::Job& job, RuleReporter* reporter) {
  const double alpha = job.train().easgd().alpha();
  const uint32_t num_ranks = NumRanks(job);
  const std::string key = "train.easgd.alpha";
  if (num_ranks * alpha < 1 || !reporter->AreValid({key, "workers.count"})) return;
  const bool may_grow = num_ranks > job.workers().count();
  reporter->ReportNumber(key, alpha,
                         Cat("less than 1 / ", may_grow ? "workers.max" : "workers.count", " (",
                             num_ranks, "): with N workers EASGD diverges for N alpha >= 1"));
}

}  // namespace tern::algorithm
