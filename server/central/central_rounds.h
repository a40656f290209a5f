// Central parameters (the servers hold the weights) in a job with rounds. A cell is one reduction
// over the workers, here of the pushes for one chunk of the model; a RoundLane is the state machine
// of the cells that one thread serves. When a round of such a cell closes, the server's weights
// change, and the answer to the workers is the new weights or their change (down_link.h).
//
//   ssgd, odsgd  w = optimizer(w, mean of the gradients)
//   easgd        w += alpha * sum over the workers of (x_i - w)
//
// In easgd (elastic averaging SGD), x_i is the weights of worker i. Each worker then moves its own
// weights towards the old w, which it still has.
//
// The rounds of a cell close in order, each once. Only the thread of the RoundLane uses these
// objects.
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

// One chunk of central parameters. The object must outlive the cell that DescribeCell() describes,
// and the sums that the cell opens.
class CentralRounds {
 public:
  // A function that is called after a round has closed.
  using OnClosed = std::function<void(uint64_t round)>;

  // `rate`: the learning rate by global step. Other arguments and errors as in CentralChunk::Make.
  static Result<std::unique_ptr<CentralRounds>> Make(const setup::Setup& setup,
                                                     const protocol::Chunk& chunk,
                                                     std::span<const float> initial, Rate rate);

  // Returns the description of the cell for the lane. `sum` describes the cell that adds up the
  // pushes if the workers hold the parameters.
  protocol::CellSpec DescribeCell(protocol::CellSpec sum);
  void SetOnClosed(OnClosed on_closed) { on_closed_ = std::move(on_closed); }

  // Closes the next round: applies the sum of `contributors` pushes, and returns the payload of the
  // answer. With 0 contributors the weights do not change, and the answer is empty.
  Bytes Close(const Bytes& sum, uint32_t contributors);
  // Returns the weights that every worker has after the round round(), for workers that return to a
  // checkpoint; if `average`, returns the moving average of the weights instead.
  protocol::CellSpec::PullAnswer Pull(bool average);

  protocol::Cell cell() const;
  uint64_t round() const { return round_; }  // the newest closed round; 0: none
  const CentralChunk& central() const { return *central_chunk_; }
  // Adds all state of this object to what checkpoints save and restore.
  void AddState(SavedState* state);
  // Returns to the state before the first round, with the weights `initial` of the whole model.
  Status Restart(std::span<const float> initial);

 private:
  CentralRounds(std::unique_ptr<CentralChunk> central_chunk, Rate rate);

  std::unique_ptr<CentralChunk> central_chunk_;
  std::optional<DownLink> down_link_;
  const Rate rate_;
  const std::optional<double> easgd_alpha_;  // nullopt: the algorithm is not easgd
  uint64_t round_ = 0;
  std::vector<float> mean_push_;  // the mean of the decoded pushes of the round that closes
  OnClosed on_closed_;
};

}  // namespace tern::server
