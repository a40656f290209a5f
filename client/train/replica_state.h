// The replica as named tensors: the state that another worker continues from, a worker's
// checkpoint, and the file of weights for users. Threads: the compute thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/train/replica.h"
#include "common/base/bytes.h"
#include "common/base/floats.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/tensors/safetensors.h"
#include "setup/setup.h"

namespace tern::client {

class ReplicaState {
 public:
  // Both outlive it.
  ReplicaState(const setup::Setup& setup, Replica& replica);

  // Adds an array that travels with the state besides the replica's own; it is read when the state
  // is saved, and written when it is loaded.
  void Also(SavedState::Array array) { also_.push_back(std::move(array)); }

  // Everything that another worker needs to continue after round `applied`. `slots` replace the
  // optimizer's own. REQUIRES that the host's arrays are the newest.
  Bytes Save(uint64_t applied);
  Bytes Save(uint64_t applied, const std::vector<std::vector<float>>& slots);
  // Without the optimizer's state, if each worker has its own; with W or other `weights`.
  Bytes SaveWeights(uint64_t applied, const float* weights = nullptr);
  // Arrays missing in the state are reset, which is logged.
  Status Load(const Bytes& state);
  static uint64_t MaxBytes(const setup::Setup& setup);

  // Everything of this worker, for its checkpoints: the state, and the point if it has one.
  std::vector<tensors::TensorView> Views();
  // kBadData names what is missing; the replica may then be partly written.
  Status LoadViews(const tensors::TensorFile& file);
  Status LoadPoint(const tensors::TensorFile& file);  // the point alone

  // Writes W as a safetensors file into `folder`, which it creates, and beside it the moving
  // average if the job has one.
  Status WriteWeights(const std::string& folder, uint64_t step);

 private:
  std::vector<tensors::TensorView> Views(const float* weights,
                                         const std::vector<const float*>& slots);
  Bytes Encode(uint64_t applied, const float* weights, const std::vector<const float*>& slots);
  std::vector<const float*> Slots();
  std::span<float> Point() { return {replica_.point(), setup_.table.total}; }
  // `whole`: the optimizer's state may not be missing.
  Status LoadTensors(const tensors::TensorFile& file, bool whole);
  Status LoadArrays(const tensors::TensorFile& file, bool whole);
  // Writes `arena` by parameter names, and the mean statistics.
  Status WriteFile(const std::string& path, const float* arena, uint64_t step);

  const setup::Setup& setup_;
  Replica& replica_;
  std::vector<SavedState::Array> also_;
};

}  // namespace tern::client
