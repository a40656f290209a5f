// What a cell adds up, and how it makes the answer. A cell is one reduction over the workers, done
// once per round; a slot is one cell in one round. A RoundLane is the state machine behind one
// socket of a server shard; it has cells.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// Adds up the contributions to one slot. Used by the lane's thread alone.
class CellSum {
 public:
  virtual ~CellSum() = default;
  // Adds one contribution. Returns an error if the payload is not a valid contribution; the sum
  // must then not be used any more. REQUIRES that the rank was not added before.
  virtual Status Add(uint32_t rank, const Bytes& payload) = 0;
  // Adds what ClosePartial of another sum of this cell returned after it had added `ranks`, in
  // ascending order, and nothing else. Otherwise as Add.
  virtual Status AddPartial(const std::vector<uint32_t>& ranks, const Bytes& payload);
  // Returns the sum for AddPartial. REQUIRES a cell of which hosts may add up pushes
  // (CellSpec::adds_partial_sums), and at least one rank.
  virtual Bytes ClosePartial() { return Close(); }
  // Returns the payload of the answer: the sum over the ranks that were added. REQUIRES at least
  // one such rank, or a cell with CellSpec::closes_every_round; without ranks the payload may be
  // empty.
  virtual Bytes Close() = 0;
};

// How a RoundLane handles one cell.
struct CellSpec {
  Cell cell;
  // Makes the empty sum of a new slot.
  std::function<std::unique_ptr<CellSum>(uint64_t round)> open;
  // Checks that the bytes can be an outcome (answer) of this cell, summed over `contributors`
  // workers (at least 1). Used for outcomes that workers hand back to a restarted server.
  std::function<Status(const Bytes&, uint32_t contributors)> check_outcome;
  // Whether hosts may add up the contributions of their workers, and send one for all of them.
  bool adds_partial_sums = false;
  // Whether a slot closes only when all members have contributed, even if the job has a smaller
  // quorum.
  bool waits_for_all = false;
  // Whether an open slot is dropped when a contributor is removed or replaced, in a job whose
  // rounds may close without some workers. There the state of a lost worker may include sums that
  // no other process has, so that they are formed again in another way.
  bool is_for_members_only = false;
  // Whether every round of this cell closes, in order, because round r + 1 builds on round r; even
  // a round in which no worker contributed.
  bool closes_every_round = false;
  // Checks the answer of a round before it is sent: whether the contributors agree on what all of
  // them must hold alike. The error says who has what; the lane then answers nothing until the job
  // goes back (RoundLane::agreement). Unset: nothing is checked.
  std::function<Status(const Bytes& answer, uint64_t round)> check_agreement = nullptr;
  // Returns the weights, or their moving average, to answer a pull. Unset: the cell cannot be
  // pulled, because the servers do not hold the parameters.
  struct PullAnswer {
    Bytes payload;
    bool is_fp32 = false;  // whether the payload is fp32, not coded with the job's pull codec
  };
  std::function<PullAnswer(bool average)> pull = nullptr;
  // Appends the state that the cell keeps from round to round, for checkpoints. Unset: the cell
  // keeps no state.
  std::function<void(SavedState*)> append_state = nullptr;
};

}  // namespace tern::protocol
