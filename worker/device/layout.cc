#include "worker/device/layout.h"

#include "client/train/arenas.h"
#include "common/algorithm/facts.h"
#include "common/codec/codecs.h"
#include "common/protocol/plan/codec_options.h"
#include "kernels/device/tiling.h"

namespace tern::device {
namespace {

std::vector<DeviceModel::LocalArray> LocalArraysOf(const pb::Job& job) {
  const client::LocalValues values(job, 1);
  std::vector<DeviceModel::LocalArray> arrays = {DeviceModel::LocalArray::kPoint};
  if (!values.reference_weights.empty()) arrays.push_back(DeviceModel::LocalArray::kBefore);
  for (const update::Optimizer::StateArray& slot : values.updater->StateArrays())
    arrays.push_back(LocalArrayFor(slot));
  return arrays;
}

}  // namespace

DeviceModel::LocalArray LocalArrayFor(const update::Optimizer::StateArray& slot) {
  return slot.name == "local_momentum" ? DeviceModel::LocalArray::kVelocity
                                       : DeviceModel::LocalArray::kMeanSquare;
}

bool StaysOnDevice(const setup::Setup& setup, const pb::Job& rank_job) {
  const pb::Train& train = rank_job.train();
  if (rank_job.workers().device() != pb::Workers::cuda || train.compute() != pb::Train::net ||
      !algorithm::FactsOf(rank_job).stays_on_device || setup.plan.is_central)
    return false;
  if (setup.plan.codecs.size() != 1 || !codec::CanEncodeOnDevice(*setup.plan.codecs.front()))
    return false;
  const codec::Codec& codec = *setup.plan.codecs.front();
  // LARS needs the norms of whole tensors. The device computes the norms of parts, so each part
  // must be a whole tensor, as is the case if scaler_elements is 0.
  return codec.scaler_elements() == 0 || train.optimizer().name() != "lars";
}

DeviceModel::Layout LayoutOf(const setup::Setup& setup, size_t state_arrays) {
  const protocol::ExchangePlan& plan = setup.plan;
  DeviceModel::Layout layout;
  layout.elements = setup.table.total;
  layout.state_arrays = static_cast<uint32_t>(state_arrays);
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  layout.has_average = facts.has_average;
  if (facts.local_updater != nullptr) layout.local_arrays = LocalArraysOf(setup.job);
  layout.rounds = facts.window;
  layout.columns = plan.column;
  layout.workers = plan.workers;
  layout.codec = plan.codecs.front().get();
  layout.options = protocol::CodecOptions(setup.job);
  for (const protocol::Bucket& bucket : plan.buckets) {
    std::vector<kernels::Part>& bucket_parts = layout.buckets.emplace_back();
    for (uint32_t p = bucket.first_part; p < bucket.first_part + bucket.parts; ++p) {
      const protocol::Part& part = plan.parts[p];
      bucket_parts.push_back({.begin = plan.tensor_begin[part.tensor] + part.begin,
                              .count = part.count,
                              .first = part.begin,
                              .tensor = part.tensor});
    }
    for (const protocol::Chunk& chunk : bucket.chunks) {
      std::vector<kernels::Part>& chunk_parts = layout.chunks.emplace_back();
      for (const codec::Segment& segment : chunk.segments) {
        chunk_parts.push_back({.begin = plan.tensor_begin[segment.tensor] + segment.begin,
                               .count = segment.count,
                               .first = segment.begin,
                               .tensor = segment.tensor});
      }
    }
  }
  return layout;
}

}  // namespace tern::device
