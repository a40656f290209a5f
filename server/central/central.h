// One chunk (a range of the parameters) of the model on a server that holds the parameters (central
// parameters): the weights, the optimizer's state, and the moving average of the weights. A server
// has one or more data lanes: each is one socket with one thread and some of the chunks. Only the
// lane's thread uses a CentralChunk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/floats.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/update/optimizer.h"
#include "setup/setup.h"

namespace tern::server {

// Returns the learning rate of a global step, counted from 0.
using Rate = std::function<double(uint64_t step)>;

class CentralChunk {
 public:
  // `initial`: the weights of the whole model. kBadJob if workers share the scaler of a codec, or
  // if the optimizer needs whole tensors and the chunk has only a part of one. `setup` and `chunk`
  // must outlive the result.
  static Result<std::unique_ptr<CentralChunk>> Make(const setup::Setup& setup,
                                                    const protocol::Chunk& chunk,
                                                    std::span<const float> initial);

  // Decodes one worker's push into `values`, which has one element per element of the chunk.
  // kMismatch if the push is invalid.
  Status DecodePush(const Bytes& push, std::span<float> values) const;
  // Decodes the sum of the pushes of `contributors` workers into `values`, divided by their number.
  Status DecodeMean(const Bytes& sum, uint32_t contributors, std::span<float> values) const;

  // Takes an optimizer step with gradient g; increments the version.
  void ApplyGradient(std::span<const float> g, double learning_rate);
  // w += alpha (x - w), the update of EASGD's center variable; increments the version.
  void MoveTowards(std::span<const float> x, float alpha);

  std::span<const float> weights() const { return weights_; }
  // The moving average; the weights themselves if the job asks for no average.
  std::span<const float> average() const { return average_.empty() ? weights_ : average_; }
  uint64_t version() const { return version_; }  // how often the weights have changed
  const protocol::Chunk& chunk() const { return chunk_; }
  const setup::Setup& setup() const { return setup_; }
  // Adds weights, moving average, optimizer state and version to what checkpoints save and restore.
  void AddState(SavedState* state);

 private:
  CentralChunk(const setup::Setup& setup, const protocol::Chunk& chunk)
      : setup_(setup), chunk_(chunk) {}
  // Call after each change of the weights: increments the version and updates the moving average.
  void CountChange();

  const setup::Setup& setup_;
  const protocol::Chunk& chunk_;
  Floats weights_, average_;
  std::unique_ptr<update::Optimizer> optimizer_;
  // For each segment (the part of the chunk in one tensor).
  std::vector<kernels::TensorRates> segment_rates_;
  uint64_t version_ = 0;
};

// The initial weights of the whole model, the same as every worker's.
std::vector<float> InitialWeights(const setup::Setup& setup);
// Returns the values as little-endian fp32, which is the payload of weights without a codec.
Bytes Fp32Bytes(std::span<const float> values);

}  // namespace tern::server
