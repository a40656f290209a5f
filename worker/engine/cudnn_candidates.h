// What cuDNN recommends for an operation graph. Internal to the engine.
#pragma once

#include <vector>

#include "worker/engine/cudnn_graph.h"

namespace tern::engine::cuda::cudnn {

// Which of its heuristics is asked: what it takes for fast, or what works everywhere.
enum class Heuristic { kFast, kFallback };

// Of one engine no more are taken: they differ in knobs, and are about as fast as each other.
constexpr int kMostOfOneEngine = 3;

// The engine of a configuration, by cuDNN's number; -1 where it does not say.
int64_t EngineOf(const Descriptor& candidate);

// Engine configurations that give the same bits each time and do not round what the shape does not
// allow them to; the heuristic's favourites first, at most `most`. None where it has none.
std::vector<Descriptor> FindCandidates(const Target& target, const Descriptor& graph,
                                       const ConvShape& shape, Heuristic heuristic, size_t most);

}  // namespace tern::engine::cuda::cudnn
