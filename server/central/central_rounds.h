// Central parameters under a synchronous algorithm: the cells of a RoundLane whose closing changes
// the server's weights, and whose answer is the weights.
//
//   ssgd, odsgd  w = optimizer(w, mean of the gradients)
//   easgd        w += alpha * sum over the workers of (x_i - w)    survey, equation 4
//
// The answer is the new w. In easgd a worker moves by the difference to the old w, which it still
// holds. The rounds of a cell close in order, each once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/protocol/rounds/round_lane.h"
#include "server/central/central.h"
#include "server/central/down_link.h"

namespace tern::server {

// One chunk. It outlives the sums that it opens.
class CentralRounds {
 public:
  // Called after `round` changed the weights.
  using OnClosed = std::function<void(uint64_t round)>;

  static Result<std::unique_ptr<CentralRounds>> Make(const setup::Setup& setup,
                                                     const protocol::Chunk& chunk,
                                                     std::span<const float> initial, Rate rate);

  // The cell for the lane. `sum` is the cell that this chunk would have with localized parameters:
  // it adds up the contributions as the codec does.
  protocol::CellSpec Spec(protocol::CellSpec sum);
  void SetOnClosed(OnClosed on_closed) { on_closed_ = std::move(on_closed); }

  // Applies the sum of `contributors` pushes; returns the answer. With no contributors nothing
  // changes and the answer is empty.
  Bytes Close(const Bytes& sum, uint32_t contributors);
  // The weights that every worker has after round(), or the moving average: for workers that go
  // back.
  protocol::CellSpec::Pulled Pull(bool average);

  protocol::Cell cell() const;
  uint64_t round() const { return round_; }  // closed so far
  const CentralChunk& central() const { return *central_; }
  void AddState(SavedState* state);
  // Resets it to its state before the first round.
  Status Restart(std::span<const float> initial);

 private:
  CentralRounds(std::unique_ptr<CentralChunk> central, Rate rate);

  std::unique_ptr<CentralChunk> central_;
  std::optional<DownLink> down_;
  const Rate rate_;
  const std::optional<double> elastic_;  // alpha
  uint64_t round_ = 0;
  std::vector<float> mean_;
  OnClosed on_closed_;
};

}  // namespace tern::server
