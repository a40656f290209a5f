#include "worker/engine/cpu/layers.h"

namespace tern::engine {

const LayerKind* FindLayerKind(pb::LayerDef::KindCase kind) {
  for (const LayerKind& line : kLayerKinds) {
    if (line.kind == kind) return &line;
  }
  return nullptr;
}

}  // namespace tern::engine
