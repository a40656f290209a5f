// For jobs without rounds. ClockCell is the interface of a cell, which has the weights of one chunk
// of the model on a server. CellClocks has the numbers that a lane (ClockLane, the state machine
// behind one server socket) counts for one cell. A worker's clock is the number of its exchanges.
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
    bool is_fp32 = false;  // the payload is weights in fp32, not coded with the job's pull codec
  };
  virtual ~ClockCell() = default;
  // Applies a push. `base`: the version of the weights at which `rank` computed the push, at most
  // version(). Returns an error and changes nothing if the payload is not a valid push.
  virtual Status Push(uint32_t rank, uint64_t base, const Bytes& payload) = 0;
  // How often the weights have changed so far.
  virtual uint64_t version() const = 0;
  // Returns the weights from which `rank` continues. `holds`: the version of the weights that the
  // worker has; nullopt: none. If that is the version of this cell's last answer to `rank`, the new
  // answer may be the difference to those weights; else the answer is complete weights.
  virtual Answer Pull(uint32_t rank, std::optional<uint64_t> holds) = 0;
  // The moving average of the weights in fp32; the weights themselves if the job keeps no average.
  virtual Bytes Average() const = 0;
};

struct ClockCellSpec {
  Cell cell;                           // the name of the cell
  std::unique_ptr<ClockCell> weights;  // the cell itself, which has the weights
};

// What a lane has counted for one cell. Checkpoints save these numbers, but not the last.
struct CellClocks {
  uint64_t total = 0;  // the number of counted pushes of all ranks
  // By rank: the clock of the newest push that was counted, or dropped as too stale.
  std::vector<uint64_t> counted_clocks;
  // By rank: the version of the weights in the last answer to the rank.
  std::vector<uint64_t> answered_versions;
  // How many pushes of all ranks a previous server process had answered, as far as members have
  // handed back answers to pushes that this process had not counted.
  uint64_t answered_before = 0;
};

}  // namespace tern::protocol
