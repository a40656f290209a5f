#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {

const LayerKind* FindLayerKind(pb::LayerDef::KindCase kind) {
  for (const LayerKind& entry : kLayerKinds) {
    if (entry.kind == kind) return &entry;
  }
  return nullptr;
}

}  // namespace tern::engine::cuda
