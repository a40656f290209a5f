// Asks cuDNN for engines that can run an operation graph (graph.h). An engine is one of cuDNN's
// implementations; a configuration is an engine with its settings. Internal to the engine.
#pragma once

#include <vector>

#include "worker/engine/cuda/cudnn/graph.h"

namespace tern::engine::cuda::cudnn {

// Which of cuDNN's heuristics to ask: kFast recommends engines that are fast, kFallback engines
// that run on every device.
enum class Heuristic { kFast, kFallback };

// FindCandidates returns more configurations of one engine than this only if all engines together
// have too few.
constexpr int kMaxPerEngine = 3;
// FindCandidates returns at most so many configurations whose kernels cuDNN compiles when it makes
// the plan, because that takes about half a second of CPU time each.
constexpr size_t kMaxCompiled = 2;

// Returns cuDNN's number of the engine of a configuration; -1 if cuDNN does not report it.
int64_t EngineNumberOf(const Descriptor& candidate);
// Whether cuDNN compiles the kernels of a configuration when it makes the plan.
bool IsCompiledAtRunTime(const Descriptor& candidate);

// Returns at most `max_candidates` engine configurations that are deterministic and do not round
// more than `shape` allows, in the order in which the heuristic prefers them, but configurations of
// an engine that already has kMaxPerEngine come later, and those that are compiled at run time
// last. Of a pass that helps a batch norm there are none of the latter: a kernel for any graph
// would replace the fastest convolution. Empty if the heuristic recommends no such configuration.
std::vector<Descriptor> FindCandidates(const Target& target, const Descriptor& graph,
                                       const ConvShape& shape, ConvPass pass, Heuristic heuristic,
                                       size_t max_candidates);

}  // namespace tern::engine::cuda::cudnn
