// What is added up in a cell of a lane in rounds, and the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "common/base/bytes.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// Adds up the contributions to one slot.
class CellSum {
 public:
  virtual ~CellSum() = default;
  // After an error (the payload is not a valid contribution) the sum must not be used any more.
  // REQUIRES each rank at most once.
  virtual Status Add(uint32_t rank, const Bytes& payload) = 0;
  // The answer, over the ranks added. REQUIRES at least one, except for cells with every_round:
  // their answer may be empty.
  virtual Bytes Close() = 0;
};

struct CellSpec {
  Cell cell;
  std::function<std::unique_ptr<CellSum>(uint64_t round)> open;
  // Whether the bytes are a possible outcome of this cell over `contributors` (at least 1).
  // Outcomes that workers hand back are checked with it.
  std::function<Status(const Bytes&, uint32_t contributors)> check_outcome;
  bool waits_for_all = false;  // ignores the quorum
  // Under `shrink`: drops the contributions of members that are removed before it closes.
  bool of_members = false;
  // Takes part in every round, and round r + 1 builds on r: rounds close in order, even if r has no
  // contributions.
  bool every_round = false;
  // The answer to a pull (of the moving average, if asked for), where servers hold the parameters;
  // empty: the cell cannot be pulled.
  struct Pulled {
    Bytes payload;
    bool whole = false;  // in fp32, whatever the job's pull codec
  };
  std::function<Pulled(bool average)> pull = nullptr;
  // Adds its state between rounds, for checkpoints; empty: it has none.
  std::function<void(SavedState*)> state = nullptr;
};

}  // namespace tern::protocol
