// Saves and loads the replica as named tensors: as the State from which another worker continues,
// in this worker's checkpoints, and as the file of weights for users. Threads: the compute thread.
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

  // Adds an array to the State besides the replica's own. Save reads it and Load writes it, so it
  // must outlive this object.
  void AddArray(SavedState::Array array) { extra_arrays_.push_back(std::move(array)); }

  // Returns the State: all that another worker needs to continue after round `applied`. `slots`
  // replaces the arrays of the optimizer's state. REQUIRES that the host's arrays are up to date
  // (Replica::CopyToHost).
  Bytes Save(uint64_t applied);
  Bytes Save(uint64_t applied, const std::vector<std::vector<float>>& slots);
  // The same without the optimizer's state, for algorithms in which each worker has its own.
  // `weights`: null for W.
  Bytes SaveWeights(uint64_t applied, const float* weights = nullptr);
  // Loads a State. Resets optimizer arrays that it does not have, and logs that. kBadData if
  // anything else is missing.
  Status Load(const Bytes& state);
  // The largest size of a State of this job.
  static uint64_t MaxBytes(const setup::Setup& setup);

  // The tensors of this worker's checkpoint: those of the State, and the point if it has one.
  std::vector<tensors::TensorView> Views();
  // Loads these tensors. kBadData names a missing one; the replica may then be partly written.
  Status LoadViews(const tensors::TensorFile& file);
  // Loads the point alone; does nothing if the replica has none.
  Status LoadPoint(const tensors::TensorFile& file);

  // Writes W as a safetensors file to `folder`, which it creates. If the job has a moving average,
  // writes that to a second file there. `step` goes into their metadata.
  Status WriteWeights(const std::string& folder, uint64_t step);

 private:
  std::vector<tensors::TensorView> Views(const float* weights,
                                         const std::vector<const float*>& slots);
  Bytes Encode(uint64_t applied, const float* weights, const std::vector<const float*>& slots);
  std::vector<const float*> Slots();
  std::span<float> Point() { return {replica_.point(), setup_.table.total}; }
  // `requires_slots`: the optimizer's state must not be missing.
  Status LoadTensors(const tensors::TensorFile& file, bool requires_slots);
  Status LoadArrays(const tensors::TensorFile& file, bool requires_slots);
  // Writes the parameters in `arena` under their names, and the mean statistics.
  Status WriteFile(const std::string& path, const float* arena, uint64_t step);

  const setup::Setup& setup_;
  Replica& replica_;
  std::vector<SavedState::Array> extra_arrays_;
};

}  // namespace tern::client
