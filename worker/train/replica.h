// A worker's replica of the model: parameters, gradients, optimizer state and moving average, each
// one arena in canonical order. Under localized parameters every worker's is bit-identical after
// every round. Threads: the compute thread owns it; between "gradient ready" and the round's sums
// the coder reads parameters and writes its bucket's gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/setup/setup.h"
#include "common/update/optimizer.h"

namespace tern::train {

class Replica {
 public:
  // The initial weights of the job's seed. `setup` outlives the replica.
  static Result<std::unique_ptr<Replica>> Make(const setup::Setup& setup);

  float* parameters() { return parameters_.data(); }
  float* gradients() { return gradients_.data(); }
  // What evaluation uses: the moving average where the job has one, else the parameters.
  const float* evaluated() const { return average_.empty() ? parameters_.data() : average_.data(); }
  bool has_average() const { return !average_.empty(); }

  // One round's update of elements [first, first + n) with mean gradient g (design section 7).
  // `round` counts from 1.
  void Update(const float* g, size_t first, size_t n, float learning_rate, float decay,
              uint64_t round);

  uint64_t Hash() const;  // of the parameters
  // State: all that another worker needs to go on after round `applied`.
  Bytes SaveState(uint64_t applied);
  Status LoadState(const Bytes& state);
  static uint64_t MaxStateBytes(const setup::Setup& setup);
  // The weights as a safetensors file; those of the moving average beside it where the job has one.
  Status WriteWeights(const std::string& folder, uint64_t round);

 private:
  explicit Replica(const setup::Setup& setup);

  const setup::Setup& setup_;
  std::vector<float> parameters_, gradients_, average_;
  std::unique_ptr<update::Optimizer> optimizer_;
};

}  // namespace tern::train
