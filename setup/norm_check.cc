#include "setup/norm_check.h"

#include <algorithm>

#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "models/graph/shapes.h"

namespace tern::setup {
namespace {

// Whether the batch norm takes mean and variance of the batch, not its running statistics.
bool IsTrained(const pb::LayerDef& norm, const models::ParameterTable& table) {
  return std::any_of(table.statistics.begin(), table.statistics.end(),
                     [name = norm.name() + ".running_mean"](const models::Statistic& statistic) {
                       return statistic.name == name && !statistic.is_frozen;
                     });
}

}  // namespace

Status CheckBatchNorms(const pb::Job& job, const pb::NetDef& net,
                       const models::ParameterTable& table) {
  if (job.train().compute() != pb::Train::net || algorithm::BatchOfWorker(job) > 1) return Ok();
  const auto shapes = models::InferShapes(net);
  if (!shapes.ok()) return shapes.status();
  for (const pb::LayerDef& layer : net.layers()) {
    if (!layer.has_batch_norm() || !IsTrained(layer, table)) continue;
    const models::ImageDims& image = shapes->at(layer.output());
    if (image.h * image.w > 1) continue;
    return Status(Code::kBadJob,
                  Cat("train.batch_total: saw ", job.train().batch_total(),
                      ", one sample for each worker, and batch norm \"", layer.name(),
                      "\" of 1 x 1 pixels, which would have the same output for every image; "
                      "allowed: at least ",
                      2 * job.workers().count(), ", or the batch norm in train.freeze"));
  }
  return Ok();
}

}  // namespace tern::setup
