// A worker's replica of the model: W, gradients, optimizer state and moving average, each one arena
// in canonical order; and, where the algorithm trains elsewhere than at W, the point where it does.
// Under localized parameters every worker's W is bit-identical after every round. Threads: the
// compute thread owns it; the coder reads what it was given until the round's sums have come.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/floats.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/setup/setup.h"
#include "common/update/optimizer.h"
#include "models/safetensors.h"
#include "worker/engine/device_model.h"

namespace tern::train {

class Replica {
 public:
  // The initial weights of the job's seed. `setup` outlives the replica.
  static Result<std::unique_ptr<Replica>> Make(const setup::Setup& setup);

  float* parameters() { return parameters_.data(); }  // W
  float* point() { return point_.empty() ? parameters_.data() : point_.data(); }
  float* gradients() { return gradients_.data(); }  // taken at point()
  // The statistics of batch norms: as this worker's steps have left them; and their mean over the
  // workers when they were compared last, for evaluation and for who uses the weights.
  std::vector<float>& statistics() { return statistics_; }
  std::vector<float>& mean_statistics() { return mean_statistics_; }
  // What evaluation uses: the moving average where the job has one, else W.
  const float* evaluated() const { return average_.empty() ? parameters_.data() : average_.data(); }
  // The moving average; empty where the job has none.
  Floats& average() { return average_; }
  update::Optimizer& optimizer() { return *optimizer_; }
  bool needs_whole_tensors() const { return optimizer_->needs_whole_tensors(); }
  // From now on weights and the optimizer's state are those on the device. What is loaded is sent
  // there; whoever wants to see them here (a hash, a state, views) calls Bring first.
  Status MoveTo(std::unique_ptr<engine::DeviceModel> device);
  engine::DeviceModel* device() { return device_.get(); }
  // To change what lies there.
  engine::DeviceModel& UseDevice() {
    newer_there_ = true;
    return *device_;
  }
  // All of it here as it is there; and there as it is here, when others have written into it.
  Status Bring();
  Status Send();

  // An arena for whoever has to see a whole round before it can update.
  float* scratch();

  // One update of elements [first, first + n) of W with mean gradient g (design section 7), and of
  // their average.
  void Update(const float* g, size_t first, size_t n, const update::Step& step, float decay);
  // The moving average of elements of W that change number `update` (from 1) has made; here, or on
  // the device.
  void Average(size_t first, size_t n, uint64_t update);
  Status AverageOnDevice(size_t first, size_t n, uint64_t update);

  // The optimizer's own state is that of the start again.
  void ResetOptimizer();
  uint64_t Hash() const;  // of W
  // What travels with the state beside the arenas; read when it is saved, written when it is
  // loaded.
  void SaveAlso(SavedState::Array array) { also_.push_back(std::move(array)); }
  // State: all that another worker needs to go on after round `applied`. With `slots`, those stand
  // for the optimizer's.
  Bytes SaveState(uint64_t applied);
  Bytes SaveState(uint64_t applied, const std::vector<std::vector<float>>& slots);
  // Without the optimizer's state, where that is each worker's own; of W or of other `weights`.
  Bytes SaveWeights(uint64_t applied, const float* weights = nullptr);
  // What a state does not have starts afresh, and the log says so.
  Status LoadState(const Bytes& state);
  // All that is this worker's own, for its checkpoints: the state, and the point where it has one.
  std::vector<models::TensorView> Views();
  // kBadData names what is missing; the replica may be partly written then.
  Status LoadViews(const models::TensorFile& file);
  Status LoadPoint(const models::TensorFile& file);  // the point alone
  static uint64_t MaxStateBytes(const setup::Setup& setup);
  // W as a safetensors file; the moving average beside it where the job has one.
  Status WriteWeights(const std::string& folder, uint64_t step);

 private:
  explicit Replica(const setup::Setup& setup);
  // `arena` by name, and the mean statistics.
  Status WriteFile(const std::string& path, const Floats& arena, uint64_t step) const;
  std::vector<models::TensorView> Views(const float* weights,
                                        const std::vector<const float*>& slots);
  Bytes Save(uint64_t applied, const float* weights, const std::vector<const float*>& slots);
  Status Load(const models::TensorFile& file, bool whole);
  Status LoadArenas(const models::TensorFile& file, bool whole);

  engine::DeviceModel::Host HostArenas();
  float OneMinusDecay(uint64_t update) const;

  const setup::Setup& setup_;
  std::unique_ptr<engine::DeviceModel> device_;
  bool newer_there_ = false;  // weights, on the device
  std::vector<SavedState::Array> also_;
  Floats parameters_, point_, gradients_, average_, scratch_;
  std::vector<float> statistics_, mean_statistics_;
  std::unique_ptr<update::Optimizer> optimizer_;
};

}  // namespace tern::train
