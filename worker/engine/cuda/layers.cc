#include "worker/engine/cuda/layers.h"

namespace tern::engine::cuda {

const LayerKind* FindLayerKind(pb::LayerDef::KindCase kind) {
  for (const LayerKind& line : kLayerKinds) {
    if (line.kind == kind) return &line;
  }
  return nullptr;
}

}  // namespace tern::engine::cuda
