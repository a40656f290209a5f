#include "worker/engine/cuda/stored_channels.h"

#include <algorithm>

namespace tern::engine::cuda {
namespace {

uint32_t ChannelsAtOnce(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
    case Precision::kFp16:
      return 8;
    case Precision::kTf32:
      return 4;
    case Precision::kFp32:
      break;
  }
  return 1;
}

bool ReadsImages(const PlannedLayer& layer) {
  return std::find(layer.input_tensors.begin(), layer.input_tensors.end(), "data") !=
         layer.input_tensors.end();
}

}  // namespace

uint32_t StoredChannels(const std::vector<PlannedLayer>& layers, Precision precision,
                        uint32_t channels) {
  constexpr uint32_t kMinChannels = 3;  // Of fewer, most of the array would be zeros.
  const bool has_only_convolutions =
      std::all_of(layers.begin(), layers.end(), [](const PlannedLayer& layer) {
        const pb::LayerDef& def = *layer.spec.def;
        return !ReadsImages(layer) || (def.has_conv() && def.conv().groups() == 1);
      });
  if (channels < kMinChannels || !has_only_convolutions) return channels;
  const uint32_t at_once = ChannelsAtOnce(precision);
  return (channels + at_once - 1) / at_once * at_once;
}

}  // namespace tern::engine::cuda
