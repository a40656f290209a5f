// Central parameters under a synchronous algorithm: the cells of a RoundLane whose closing changes
// the server's weights, and whose answer is the weights.
//
//   ssgd, odsgd  w = optimizer(w, mean of the gradients)            answer: w
//   easgd        w += alpha sum over the workers of (x_i - w)       answer: w; a worker moves by
//   the
//                (survey equation 4)                                difference to the w before,
//                which
//                                                                   it still holds
//
// The rounds of a cell close in order, each once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/protocol/round_lane.h"
#include "server/central.h"
#include "server/down_link.h"

namespace tern::server {

// One chunk. It outlives the sums that it opens.
class CentralRounds {
 public:
  // After `round` changed the weights.
  using OnClosed = std::function<void(uint64_t round)>;

  static Result<std::unique_ptr<CentralRounds>> Make(const setup::Setup& setup,
                                                     const protocol::Chunk& chunk,
                                                     std::span<const float> initial, Rate rate);

  // The cell of the lane. `sum` is the same cell as it is where parameters are localized: it adds
  // up, in whatever way the codec does.
  protocol::CellSpec Spec(protocol::CellSpec sum);
  void SetOnClosed(OnClosed on_closed) { on_closed_ = std::move(on_closed); }

  // What the sum of `contributors` pushes does; the answer. No contributors: nothing changes, no
  // answer.
  Bytes Close(const Bytes& sum, uint32_t contributors);
  // What every worker holds after round(), or the moving average: for those that go back to it.
  protocol::CellSpec::Pulled Pull(bool average);

  protocol::Cell cell() const;
  uint64_t round() const { return round_; }  // closed so far
  const CentralChunk& central() const { return *central_; }
  void AddState(SavedState* state);
  // Before the first round again.
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
