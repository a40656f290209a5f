#include "setup/net_check.h"

#include <algorithm>

#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "models/graph/shapes.h"
#include "setup/tensor_rates.h"

namespace tern::setup {
namespace {

// As in worker/engine/specs.cc.
constexpr uint64_t kMaxElements = (uint64_t{1} << 31) - 1;

Status TooLarge(const std::string& key, uint64_t value, const std::string& tensor,
                uint64_t allowed) {
  return Status(Code::kBadJob, Cat(key, ": saw ", value, ", with which tensor \"", tensor,
                                   "\" has more than 2^31 elements",
                                   allowed == 0 ? "; take smaller images or a smaller net"
                                                : Cat("; allowed: at most ", allowed)));
}

}  // namespace

Status CheckTensorSizes(const pb::Job& job, const pb::NetDef& net) {
  if (job.train().compute() != pb::Train::net) return Ok();
  const auto shapes = models::InferShapes(net);
  if (!shapes.ok()) return shapes.status();
  for (const auto& [name, dims] : *shapes) {
    const uint64_t max_batch = kMaxElements / models::Elements(dims);
    if (algorithm::BatchOfWorker(job) > max_batch) {
      return TooLarge("train.batch_total", job.train().batch_total(), name,
                      max_batch * job.workers().count());
    }
    if (job.evaluation().batch() > max_batch)
      return TooLarge("evaluation.batch", job.evaluation().batch(), name, max_batch);
  }
  return Ok();
}

std::vector<std::string> WarningsOfNet(const pb::Job& job, const pb::NetDef& net,
                                       const models::ParameterTable& table) {
  std::vector<std::string> warnings;
  const bool has_dropout =
      std::any_of(net.layers().begin(), net.layers().end(),
                  [](const pb::LayerDef& layer) { return layer.has_dropout(); });
  if (job.model().has_dropout() && !has_dropout) {
    warnings.push_back(Cat("model.dropout has no effect, because ", job.model().name(),
                           " has no dropout layers at ", net.input().height(), " x ",
                           net.input().width(), " pixels"));
  }
  for (const std::string& rule : RulesOfFrozenTensors(job, table))
    warnings.push_back(rule + " has no effect, because all tensors that it matches are frozen");
  return warnings;
}

}  // namespace tern::setup
