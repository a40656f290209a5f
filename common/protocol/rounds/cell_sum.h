// What a cell of a RoundLane adds up, and how it makes the answer. A cell is one reduction over the
// workers, done once per round; a slot is one cell in one round.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "common/base/bytes.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// Adds up the contributions to one slot. Used by the lane's thread alone.
class CellSum {
 public:
  virtual ~CellSum() = default;
  // Adds one contribution. Error: the payload is not a valid contribution, and the sum must not be
  // used any more. REQUIRES each rank at most once.
  virtual Status Add(uint32_t rank, const Bytes& payload) = 0;
  // Returns the payload of the answer: the sum over the ranks that were added. REQUIRES at least
  // one such rank, except for cells with every_round, whose answer may then be empty.
  virtual Bytes Close() = 0;
};

// How a RoundLane handles one cell.
struct CellSpec {
  Cell cell;
  // Makes the empty sum of a slot.
  std::function<std::unique_ptr<CellSum>(uint64_t round)> open;
  // Checks that the bytes can be an outcome of this cell over `contributors` workers (at least 1).
  // For outcomes that workers hand back to a restarted server.
  std::function<Status(const Bytes&, uint32_t contributors)> check_outcome;
  bool waits_for_all = false;  // closes only when all members have contributed, whatever the quorum
  // If lost members are removed (`shrink`): an open slot is dropped when a member that contributed
  // to it is removed.
  bool members_only = false;
  // Every round of this cell closes, in order, because round r + 1 builds on round r; even a round
  // in which no worker contributed.
  bool every_round = false;
  // Where servers hold the parameters: returns the weights, or their moving average, for a pull.
  // Unset: the cell cannot be pulled.
  struct Pulled {
    Bytes payload;
    bool whole = false;  // in fp32, not coded with the job's pull codec
  };
  std::function<Pulled(bool average)> pull = nullptr;
  // Appends what the cell keeps from round to round, for checkpoints. Unset: it keeps nothing.
  std::function<void(SavedState*)> state = nullptr;
};

}  // namespace tern::protocol
