// Central parameters: a server's state of one chunk of the model: the weights, the optimizer's
// state for them, their moving average. Belongs to the thread of its lane.
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

// The learning rate of global step 0, 1, ...
using Rate = std::function<double(uint64_t step)>;

class CentralChunk {
 public:
  // `initial`: the weights of the whole model. kBadJob: an exchange or an optimizer that does not
  // support partial models. `setup` outlives it.
  static Result<std::unique_ptr<CentralChunk>> Make(const setup::Setup& setup,
                                                    const protocol::Chunk& chunk,
                                                    std::span<const float> initial);

  // Decodes one worker's push into values[0, count). kMismatch if it is invalid.
  Status Decode(const Bytes& push, std::span<float> values) const;
  // Decodes the mean of a sum over `contributors` workers.
  Status DecodeMean(const Bytes& sum, uint32_t contributors, std::span<float> values) const;

  // Takes an optimizer step with gradient g; increments the version.
  void Apply(std::span<const float> g, double learning_rate);
  // w += alpha (x - w) (EASGD's centre); increments the version.
  void MoveTowards(std::span<const float> x, float alpha);

  std::span<const float> weights() const { return weights_; }
  // The moving average; the weights themselves if the job asks for no average.
  std::span<const float> average() const { return average_.empty() ? weights_ : average_; }
  uint64_t version() const { return version_; }  // changes so far
  const protocol::Chunk& chunk() const { return chunk_; }
  const setup::Setup& setup() const { return setup_; }
  void AddState(SavedState* state);

 private:
  CentralChunk(const setup::Setup& setup, const protocol::Chunk& chunk)
      : setup_(setup), chunk_(chunk) {}
  void CountChange();

  const setup::Setup& setup_;
  const protocol::Chunk& chunk_;
  Floats weights_, average_;
  std::unique_ptr<update::Optimizer> optimizer_;
  std::vector<float> decay_;  // by segment
  uint64_t version_ = 0;
};

// The initial weights of the whole model, the same as every worker's.
std::vector<float> InitialWeights(const setup::Setup& setup);
// Encodes a row of fp32, the form of weights that are sent whole.
Bytes WholeBytes(std::span<const float> values);

}  // namespace tern::server
