#include "worker/engine/cpu/layers.h"

namespace tern::engine {

const LayerKind* FindLayerKind(pb::LayerDef::KindCase kind) {
  for (const LayerKind& entry : kLayerKinds) {
    if (entry.kind == kind) return &entry;
  }
  return nullptr;
}

}  // namespace tern::engine
