// cuDNN's recommendations for an operation graph. Internal to the engine.
#pragma once

#include <vector>

#include "worker/engine/cuda/cudnn/graph.h"

namespace tern::engine::cuda::cudnn {

// Which of cuDNN's heuristics to query: for fast engines, or for engines that work everywhere.
enum class Heuristic { kFast, kFallback };

// FindCandidates returns at most this many configurations of one engine: they differ only in its
// settings (knobs), and are about equally fast.
constexpr int kMaxPerEngine = 3;

// The number of a configuration's engine in cuDNN; -1 if cuDNN does not report it.
int64_t EngineOf(const Descriptor& candidate);

// Engine configurations that are deterministic and do not round more than the shape allows, in the
// heuristic's order of preference, at most `max`. Empty if it has none.
std::vector<Descriptor> FindCandidates(const Target& target, const Descriptor& graph,
                                       const ConvShape& shape, Heuristic heuristic, size_t max);

}  // namespace tern::engine::cuda::cudnn
