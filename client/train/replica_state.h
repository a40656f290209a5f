// Saves and loads a worker's replica of the model as named tensors, for three uses: the State from
// which another worker continues, this worker's checkpoints, and the file of weights for users. W
// are the weights on which the workers agree; the point are the weights at which a worker computes
// gradients, if they are not W; slots are the arrays of the optimizer's state. Threads: the compute
// thread.
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
  // Both arguments outlive this object.
  ReplicaState(const setup::Setup& setup, Replica& replica);

  // Adds an array to the State besides the replica's own. Save reads the array and Load writes it,
  // so the array must outlive this object.
  void AddArray(SavedState::Array array) { extra_arrays_.push_back(std::move(array)); }
  // The same for an array that States and checkpoints of an earlier start may lack: Load then sets
  // it to zeros.
  void AddOptionalArray(SavedState::Array array) { optional_arrays_.push_back(std::move(array)); }

  // Returns the State: all that another worker needs to continue after round `applied`. `slots`
  // replaces the arrays of the optimizer's state. REQUIRES that the host's arrays are up to date
  // (Replica::CopyToHost).
  Bytes Save(uint64_t applied);
  Bytes Save(uint64_t applied, const std::vector<std::vector<float>>& slots);
  // Returns the State without the optimizer's state, for algorithms in which each worker has its
  // own. The outer optimizer's state, which all share, is in every State. `weights`: the weights to
  // save; null: W.
  Bytes SaveWeights(uint64_t applied, const float* weights = nullptr);
  // Loads a State. Resets the slots that the State does not have, and logs that. kBadData if
  // anything else is missing.
  Status Load(const Bytes& state);
  // The largest size of a State of this job.
  static uint64_t MaxBytes(const setup::Setup& setup);

  // Returns the tensors of this worker's checkpoint: those of the State, and the point if there is
  // one.
  std::vector<tensors::TensorView> ViewTensors();
  // Loads the tensors of a checkpoint. What it has not of the optimizers' states and the moving
  // average begins anew, and the log says so: the job may accept checkpoints of other settings.
  // kBadData names another missing tensor; the replica may then be partly overwritten.
  Status LoadCheckpointTensors(const tensors::TensorFile& file);
  // Loads the point alone; does nothing if the replica has none.
  Status LoadPoint(const tensors::TensorFile& file);

  // Writes W as a safetensors file to `folder`, which it creates. If the job has a moving average
  // of W, writes the average to a second file. The metadata of both files contain `step`.
  Status WriteWeights(const std::string& folder, uint64_t step);
  // Writes Replica::evaluated_weights() to the file `path`, with `metadata`. REQUIRES that the
  // host's arrays are up to date.
  Status WriteEvaluatedWeights(const std::string& path, uint64_t step,
                               const tensors::Metadata& metadata);

 private:
  std::vector<tensors::TensorView> ViewTensors(const float* weights,
                                               const std::vector<const float*>& slots);
  Bytes Encode(uint64_t applied, const float* weights, const std::vector<const float*>& slots);
  std::vector<const float*> OptimizerSlots();
  std::span<float> Point() { return {replica_.point(), setup_.table.total}; }
  // Who wrote a State. Each worker may have its own optimizer's state, which another one's State
  // may lack. The checkpoint of a job with other keys may lack what all have in common, too.
  enum class Source { kWorker, kCheckpoint };
  Status LoadTensors(const tensors::TensorFile& file, Source source);
  Status LoadArrays(const tensors::TensorFile& file, Source source);
  // Loads an array of an optimizer's state. If it is missing, and may be, sets it to zeros and logs
  // that.
  Status LoadSlot(const tensors::TensorFile& file, const update::Optimizer::StateArray& slot,
                  const std::string& prefix, const std::string& owner, bool may_lack);
  // Whether the file has an array of all parameters under this prefix.
  bool HasArena(const tensors::TensorFile& file, const std::string& prefix) const;
  // Writes the parameters in `arena` and the frozen ones under their names, and the mean
  // statistics.
  Status WriteFile(const std::string& path, const float* arena, uint64_t step,
                   tensors::Metadata metadata = {});

  const setup::Setup& setup_;
  Replica& replica_;
  std::vector<SavedState::Array> extra_arrays_, optional_arrays_;
};

}  // namespace tern::client
