// cuDNN's recommendations for an operation graph. Internal to the engine.
#pragma once

#include <vector>

#include "worker/engine/cuda/cudnn/graph.h"

namespace tern::engine::cuda::cudnn {

// Which of cuDNN's heuristics to ask: for fast engines, or for engines that work everywhere.
enum class Heuristic { kFast, kFallback };

// At most this many per engine: they differ only in knobs, and are about equally fast.
constexpr int kMostOfOneEngine = 3;

// The engine of a configuration, by cuDNN's number; -1 if it does not say.
int64_t EngineOf(const Descriptor& candidate);

// Engine configurations that are deterministic and do not round more than the shape allows, the
// heuristic's favourites first, at most `most`. Empty if it has none.
std::vector<Descriptor> FindCandidates(const Target& target, const Descriptor& graph,
                                       const ConvShape& shape, Heuristic heuristic, size_t most);

}  // namespace tern::engine::cuda::cudnn
