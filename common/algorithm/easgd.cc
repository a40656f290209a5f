#include "common/algorithm/rules.h"

namespace tern::algorithm {

// Synchronous EASGD: every round moves the centre by alpha of its difference to each worker.
void CheckEasgd(const pb::Job& job, Judge* judge) {
  const double alpha = job.train().easgd().alpha(), workers = job.workers().count();
  const std::string key = "train.easgd.alpha";
  if (workers * alpha < 1 || !judge->Sound({key, "workers.count"})) return;
  judge->ReportNumber(key, alpha,
                      "less than 1 / workers.count (" + std::to_string(job.workers().count()) +
                          "): the centre goes that part of the way to every worker, "
                          "and from there on it swings without end");
}

}  // namespace tern::algorithm
