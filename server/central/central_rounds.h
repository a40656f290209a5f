// Central parameters in a job with rounds: the cells of a RoundLane for pushes. When a round of
// such a cell closes, the server's weights change, and the answer is the new weights.
//
//   ssgd, odsgd  w = optimizer(w, mean of the gradients)
//   easgd        w += alpha * sum over the workers of (x_i - w)    survey, equation 4
//
// In easgd a worker then moves by the difference to the old w, which it still holds. The rounds of
// a cell close in order, each once. Used by the lane's thread alone.
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

// One chunk of central parameters. It must outlive the cell and the sums that the cell opens.
class CentralRounds {
 public:
  // Called after `round` changed the weights.
  using OnClosed = std::function<void(uint64_t round)>;

  // Arguments and errors as in CentralChunk::Make.
  static Result<std::unique_ptr<CentralRounds>> Make(const setup::Setup& setup,
                                                     const protocol::Chunk& chunk,
                                                     std::span<const float> initial, Rate rate);

  // Makes the cell for the lane. `sum`: the cell that this chunk has if workers hold the parameters
  // (PushCell); it adds up the contributions.
  protocol::CellSpec Spec(protocol::CellSpec sum);
  void SetOnClosed(OnClosed on_closed) { on_closed_ = std::move(on_closed); }

  // Closes the next round: applies the sum of `contributors` pushes, and returns the payload of the
  // answer. With 0 contributors the weights do not change, and the answer is empty.
  Bytes Close(const Bytes& sum, uint32_t contributors);
  // The weights that every worker has after round(), or their moving average. For workers that go
  // back to a checkpoint.
  protocol::CellSpec::Pulled Pull(bool average);

  protocol::Cell cell() const;
  uint64_t round() const { return round_; }  // the newest closed round; 0: none
  const CentralChunk& central() const { return *central_; }
  void AddState(SavedState* state);
  // Returns to the state before the first round.
  Status Restart(std::span<const float> initial);

 private:
  CentralRounds(std::unique_ptr<CentralChunk> central, Rate rate);

  std::unique_ptr<CentralChunk> central_;
  std::optional<DownLink> down_;
  const Rate rate_;
  const std::optional<double> elastic_;  // alpha of easgd; nullopt: another algorithm
  uint64_t round_ = 0;
  std::vector<float> mean_;
  OnClosed on_closed_;
};

}  // namespace tern::server
