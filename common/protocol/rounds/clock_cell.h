// The weights behind a cell of a lane without rounds, and what the lane counts of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// The weights of one cell, and what a push does to them.
class ClockCell {
 public:
  struct Answer {
    Bytes payload;
    bool whole = false;  // weights in fp32, whatever the job's pull codec
  };
  virtual ~ClockCell() = default;
  // Applies a push. `base`: the version of the weights that `rank` computed it at, at most
  // version(). An error: the payload is not a valid push, and nothing has changed.
  virtual Status Push(uint32_t rank, uint64_t base, const Bytes& payload) = 0;
  // The number of changes so far.
  virtual uint64_t version() const = 0;
  // The weights from which `rank` continues. `holds`: the version that it has; nothing: none. The
  // answer is a difference only if `rank` holds this cell's last answer to it.
  virtual Answer Pull(uint32_t rank, std::optional<uint64_t> holds) = 0;
  // The moving average of the weights (the weights where none is kept), fp32.
  virtual Bytes Average() const = 0;
};

struct ClockCellSpec {
  Cell cell;
  std::unique_ptr<ClockCell> weights;
};

// What a cell has counted; saved in checkpoints.
struct CellClocks {
  uint64_t total = 0;              // pushes of all ranks
  std::vector<uint64_t> counted;   // by rank: the newest clock
  std::vector<uint64_t> answered;  // by rank: the version at its last answer
};

}  // namespace tern::protocol
