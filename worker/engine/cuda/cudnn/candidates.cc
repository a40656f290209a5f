#include "worker/engine/cuda/cudnn/candidates.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "worker/engine/cuda/cudnn/descriptor_builder.h"

namespace tern::engine::cuda::cudnn {
namespace {

// The descriptor of the engine of a candidate; null if cuDNN does not report it.
Descriptor DescribeEngine(const Descriptor& candidate) {
  cudnnBackendDescriptor_t raw = nullptr;
  if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &raw) != 0) return nullptr;
  Descriptor engine(raw);
  int64_t count = 0;
  if (cudnnBackendGetAttribute(candidate.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw) != 0)
    return nullptr;
  return engine;
}

// Whether the candidate's engine is deterministic and rounds no more than the shape allows.
bool IsSuitable(const Descriptor& candidate, const ConvShape& shape) {
  const Descriptor engine = DescribeEngine(candidate);
  if (engine == nullptr) return false;
  int64_t count = 0;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  if (cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                               CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &count, notes.data()) != 0)
    return false;
  const bool exact = shape.type == kernels::DeviceType::kFloat && !shape.tf32;
  return std::none_of(notes.begin(), notes.begin() + count, [exact](auto note) {
    // FFT, and Winograd's algorithm with large tiles, have errors above 1e-4, whatever type they
    // compute in.
    const bool rounds = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                        note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
                        note == CUDNN_NUMERICAL_NOTE_FFT ||
                        note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
                        note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 ||
                        note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION || (exact && rounds);
  });
}

// All candidates of one heuristic; none if it has no answer for the graph.
std::vector<Descriptor> QueryHeuristic(const Target& target, const Descriptor& graph,
                                       cudnnBackendHeurMode_t mode) {
  DescriptorBuilder maker(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "a heuristic");
  maker.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.handle == nullptr) maker.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.properties);
  const Result<Descriptor> heuristic = maker.Finish();
  int64_t count = 0;
  if (!heuristic.ok() ||
      cudnnBackendGetAttribute(heuristic->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr) != 0)
    return {};
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw(static_cast<size_t>(count));
  for (cudnnBackendDescriptor_t& one : raw) {
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &one) != 0) return {};
    found.emplace_back(one);
  }
  if (cudnnBackendGetAttribute(heuristic->get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()) != 0)
    return {};
  found.resize(static_cast<size_t>(count));
  return found;
}

}  // namespace

int64_t EngineOf(const Descriptor& candidate) {
  const Descriptor engine = DescribeEngine(candidate);
  int64_t index = -1, count = 0;
  if (engine == nullptr || cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                                    CUDNN_TYPE_INT64, 1, &count, &index) != 0)
    return -1;
  return index;
}

std::vector<Descriptor> FindCandidates(const Target& target, const Descriptor& graph,
                                       const ConvShape& shape, Heuristic heuristic, size_t max) {
  const bool fast = heuristic == Heuristic::kFast;
  std::map<int64_t, int> taken;  // number of candidates taken, by engine
  std::vector<Descriptor> suiting;
  for (Descriptor& candidate :
       QueryHeuristic(target, graph, fast ? CUDNN_HEUR_MODE_A : CUDNN_HEUR_MODE_FALLBACK)) {
    if (suiting.size() == max) break;
    if (IsSuitable(candidate, shape) && taken[EngineOf(candidate)]++ < kMaxPerEngine)
      suiting.push_back(std::move(candidate));
  }
  return suiting;
}

}  // namespace tern::engine::cuda::cudnn
