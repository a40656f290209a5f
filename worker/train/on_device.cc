#include "worker/train/on_device.h"

#include <algorithm>

namespace tern::train {

bool StaysOnDevice(const setup::Setup& setup, const pb::Job& own) {
  const pb::Train& train = own.train();
  if (own.workers().device() != pb::Workers::cuda || train.compute() != pb::Train::net ||
      train.algorithm() != "ssgd" || setup.plan.central)
    return false;
  const auto& codecs = setup.plan.codec_of;
  const bool ternary = std::all_of(codecs.begin(), codecs.end(), [](const auto* codec) {
    return codec->name() == "ternary" && codec->NewMemory(1) == nullptr;
  });
  return ternary && setup.plan.scalers_from == 0 && train.optimizer().name() != "lars" &&
         train.clip_norm() == 0 && own.evaluation().ema_decay() == 0 &&
         !own.metrics().tensorboard();
}

engine::DeviceModel::Layout LayoutOf(const setup::Setup& setup, size_t slots) {
  const protocol::ExchangePlan& plan = setup.plan;
  engine::DeviceModel::Layout layout;
  layout.elements = setup.table.total;
  layout.slots = static_cast<uint32_t>(slots);
  for (const protocol::Bucket& bucket : plan.buckets) {
    std::vector<kernels::Part>& parts = layout.buckets.emplace_back();
    for (uint32_t p = bucket.first_part; p < bucket.first_part + bucket.parts; ++p) {
      const protocol::Part& part = plan.parts[p];
      parts.push_back({.begin = plan.tensor_begin[part.tensor] + part.begin,
                       .count = part.count,
                       .first = part.begin,
                       .tensor = part.tensor});
    }
    for (const protocol::Chunk& chunk : bucket.chunks) {
      std::vector<kernels::Part>& segments = layout.chunks.emplace_back();
      for (const codec::Segment& segment : chunk.segments) {
        segments.push_back({.begin = plan.tensor_begin[segment.tensor] + segment.begin,
                            .count = segment.count,
                            .first = segment.begin,
                            .tensor = segment.tensor});
      }
    }
  }
  return layout;
}

uint32_t ChunkIndex(const protocol::ExchangePlan& plan, uint32_t bucket, uint32_t chunk) {
  uint32_t before = 0;
  for (uint32_t b = 0; b < bucket; ++b)
    before += static_cast<uint32_t>(plan.buckets[b].chunks.size());
  return before + chunk;
}

}  // namespace tern::train
