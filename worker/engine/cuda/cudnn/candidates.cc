#include "worker/engine/cuda/cudnn/candidates.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "worker/engine/cuda/cudnn/descriptor_builder.h"

namespace tern::engine::cuda::cudnn {
namespace {

// Returns the descriptor of the engine of `candidate`, which is an engine configuration; null if
// cuDNN does not report the engine.
Descriptor DescribeEngine(const Descriptor& candidate) {
  cudnnBackendDescriptor_t raw_engine = nullptr;
  if (TheCudnn().BackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &raw_engine) != 0)
    return nullptr;
  Descriptor engine(raw_engine);
  int64_t num_values = 0;
  if (TheCudnn().BackendGetAttribute(candidate.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &num_values,
                                     &raw_engine) != 0)
    return nullptr;
  return engine;
}

// Whether the candidate's engine is deterministic and rounds no more than the shape allows.
bool IsSuitable(const Descriptor& candidate, const ConvShape& shape) {
  const Descriptor engine = DescribeEngine(candidate);
  if (engine == nullptr) return false;
  int64_t num_notes = 0;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  if (TheCudnn().BackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                     CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &num_notes,
                                     notes.data()) != 0)
    return false;
  const bool must_be_exact = shape.type == kernels::DeviceType::kFloat && !shape.allows_tf32;
  return std::none_of(notes.begin(), notes.begin() + num_notes, [must_be_exact](auto note) {
    // FFT, and Winograd's algorithm with large tiles, have errors above 1e-4 even in fp32.
    const bool loses_precision = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                                 note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
                                 note == CUDNN_NUMERICAL_NOTE_FFT ||
                                 note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
                                 note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 ||
                                 note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           (must_be_exact && loses_precision);
  });
}

// Returns all configurations that one heuristic recommends for the graph; none if the query fails.
std::vector<Descriptor> QueryHeuristic(const Target& target, const Descriptor& graph,
                                       cudnnBackendHeurMode_t mode) {
  DescriptorBuilder builder(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "a heuristic");
  builder.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.handle == nullptr) builder.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.properties);
  const Result<Descriptor> heuristic = builder.Finish();
  int64_t num_configurations = 0;
  if (!heuristic.ok() || TheCudnn().BackendGetAttribute(
                             heuristic->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &num_configurations, nullptr) != 0)
    return {};
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> raw_configurations(static_cast<size_t>(num_configurations));
  for (cudnnBackendDescriptor_t& descriptor : raw_configurations) {
    if (TheCudnn().BackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &descriptor) != 0)
      return {};
    configurations.emplace_back(descriptor);
  }
  if (TheCudnn().BackendGetAttribute(heuristic->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, num_configurations,
                                     &num_configurations, raw_configurations.data()) != 0)
    return {};
  configurations.resize(static_cast<size_t>(num_configurations));
  return configurations;
}

}  // namespace

int64_t EngineNumberOf(const Descriptor& candidate) {
  const Descriptor engine = DescribeEngine(candidate);
  int64_t index = -1, num_values = 0;
  if (engine == nullptr ||
      TheCudnn().BackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                                     1, &num_values, &index) != 0)
    return -1;
  return index;
}

bool IsCompiledAtRunTime(const Descriptor& candidate) {
  const Descriptor engine = DescribeEngine(candidate);
  int64_t num_notes = 0;
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> notes;
  if (engine == nullptr ||
      TheCudnn().BackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                     CUDNN_TYPE_BEHAVIOR_NOTE, notes.size(), &num_notes,
                                     notes.data()) != 0)
    return false;
  return std::find(notes.begin(), notes.begin() + num_notes,
                   CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != notes.begin() + num_notes;
}

std::vector<Descriptor> FindCandidates(const Target& target, const Descriptor& graph,
                                       const ConvShape& shape, ConvPass pass, Heuristic heuristic,
                                       size_t max_candidates) {
  const size_t max_compiled = HelpsNorm(shape, pass) ? 0 : kMaxCompiled;
  const bool is_fast = heuristic == Heuristic::kFast;
  std::map<int64_t, int> num_suitable;  // How many suitable candidates were found, by engine.
  std::vector<Descriptor> candidates, others, compiled;
  for (Descriptor& candidate :
       QueryHeuristic(target, graph, is_fast ? CUDNN_HEUR_MODE_A : CUDNN_HEUR_MODE_FALLBACK)) {
    if (candidates.size() == max_candidates) break;
    if (!IsSuitable(candidate, shape)) continue;
    if (IsCompiledAtRunTime(candidate)) {
      if (compiled.size() < max_compiled) compiled.push_back(std::move(candidate));
      continue;
    }
    const bool is_early = num_suitable[EngineNumberOf(candidate)]++ < kMaxPerEngine;
    (is_early ? candidates : others).push_back(std::move(candidate));
  }
  for (auto* later : {&others, &compiled}) {
    for (Descriptor& candidate : *later)
      if (candidates.size() < max_candidates) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace tern::engine::cuda::cudnn
