// The interface of the weights that a cell of a ClockLane changes, and what the lane counts for
// each cell.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// The weights of one cell, and what a push does to them. Used by the lane's thread alone.
class ClockCell {
 public:
  struct Answer {
    Bytes payload;
    bool whole = false;  // the payload is weights in fp32, not coded with the job's pull codec
  };
  virtual ~ClockCell() = default;
  // Applies a push. `base`: the version of the weights at which `rank` computed it, at most
  // version(). Error: the payload is not a valid push, and nothing has changed.
  virtual Status Push(uint32_t rank, uint64_t base, const Bytes& payload) = 0;
  // How often the weights have changed so far.
  virtual uint64_t version() const = 0;
  // Returns the weights from which `rank` continues. `holds`: the version that it has; nullopt:
  // none. The answer is a difference to the weights that `rank` has, if it holds this cell's last
  // answer to it; else it is complete weights.
  virtual Answer Pull(uint32_t rank, std::optional<uint64_t> holds) = 0;
  // The moving average of the weights in fp32; the weights themselves if the job keeps no average.
  virtual Bytes Average() const = 0;
};

struct ClockCellSpec {
  Cell cell;
  std::unique_ptr<ClockCell> weights;
};

// What a lane has counted for one cell. Checkpoints save it.
struct CellClocks {
  uint64_t total = 0;              // pushes of all ranks
  std::vector<uint64_t> counted;   // by rank: the newest clock whose push was counted
  std::vector<uint64_t> answered;  // by rank: the version of the weights in its last answer
};

}  // namespace tern::protocol
