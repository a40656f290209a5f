// The leader of a host (exchange.host_sum): adds up the pushes of the workers of one host, so that
// the host's link carries one push and one answer of each cell and round, instead of one of each
// for every worker. One of the workers is the leader; its net thread owns this machine. The states
// of a sum (a cell in one round):
//
//                             all of the host have come, or `patience` is over
//   (none) --push--> kGathering ------------------------------------------------> kSent
//     |                ^    ^    ^                                                | ^ |
//     |                |    |    +--------------------- push ---------------------+ | | answer
//     |                |    +-------------------------- push --------- kAnswered <--|-+
//     +-------------- a Skip before any push ---------------------------------------+
//
//   any --the leader has applied the round--> (none)
//
// Which pushes are in a sum never matters for the result: the server counts every rank once,
// whatever it comes in, and adds codes as integers. (It adds floats in the order of the lowest rank
// of each sum.) A worker repeats to the server itself what has no answer, and tells the leader so
// (a Skip), which then does not wait for that push. So a leader that is slow, lost, or wrong about
// who is there costs bytes, and a lost one at most the wait for the answer to a probe.
//
// A worker is expected in a sum from the round after its first push on. If its push does not come
// within `patience`, it is not expected until it pushes again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/cell_sum.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

class HostLeader {
 public:
  enum class State : uint8_t { kGathering, kSent, kAnswered };
  struct Options {
    uint32_t rank = 0;     // the leader's own
    uint32_t workers = 1;  // of the job
    Time patience{};       // how long a push waits for the others
    // Whether the plan has this cell, which is one for pushes.
    std::function<bool(const Cell&)> has_cell;
    // Makes the empty sum of a cell.
    std::function<std::unique_ptr<CellSum>(const Cell& cell, uint64_t round)> open;
  };
  struct Action {
    enum class Type {
      kSend,     // send `message`, a push, on the cell's lane; if that is not up, call OnLaneLost()
      kForward,  // send `message`, an answer, to the worker `rank` of this host
      kRelease,  // tell the worker `rank` of this host to push to the servers itself what it has
                 // pushed to the leader (Exchange::Leader)
    };
    Type type = Type::kSend;
    uint32_t rank = 0;
    Message message;
  };
  using Actions = std::vector<Action>;

  struct Counters {
    uint64_t sums = 0;      // sums of two or more workers that were sent
    uint64_t summed = 0;    // pushes in them
    uint64_t alone = 0;     // pushes that were sent alone
    uint64_t released = 0;  // times that a worker was told to push to the servers itself
  };

  explicit HostLeader(Options options) : options_(std::move(options)) {}

  // A worker of this host, or the leader itself, pushes, or tells that a push does not come (Skip).
  // Ignores what is not in the plan. REQUIRES a message that has a push.
  void OnPush(const Message& push, Time now, Actions* out);
  // A server has answered: forwards the answer to those who are in the sum. REQUIRES a message that
  // has a sum.
  void OnAnswer(const Message& answer, Actions* out);
  // A lane is lost, or a sum cannot be sent: releases the workers that wait for answers of these
  // cells. The leader itself repeats its own pushes anyway.
  void OnLaneLost(const std::function<bool(const Cell&)>& is_of_lane, Actions* out);
  // The leader has applied all rounds up to this one.
  void SetApplied(uint64_t applied);
  // The leader has installed the state after this round, perhaps as a new incarnation. Forgets all.
  // Until the leader itself pushes, other workers are released.
  void Restart(uint64_t applied);
  // Call at least every `patience` / 4.
  void OnTimer(Time now, Actions* out);

  const Counters& counters() const { return counters_; }
  // How many sums are kept; at most those of the rounds that the leader has not applied.
  size_t num_sums() const { return sums_.size(); }
  // These invariants hold after every event: a sum that gathers has a push that waits, another has
  // none; no rank both waits in a sum and has left it; a kept sum is of a round that is not
  // applied.
  Status Check() const;

 private:
  friend class HostLeaderPeer;            // for tests
  using Key = std::pair<uint64_t, Cell>;  // the round and the cell
  struct Sum {
    State state = State::kSent;
    Time since{};                         // when the oldest push that waits came
    std::map<uint32_t, Message> waiting;  // by rank: the pushes that wait
    std::set<uint32_t> gone;              // ranks that were sent, or go to the server themselves
    std::set<uint32_t> unanswered;        // ranks other than the leader's whose answer is awaited
  };
  struct Worker {
    uint64_t incarnation = 0;
    std::optional<uint64_t> expected_from;  // the first round in which others wait for its push
  };

  // Returns the cell of a message that the plan has; else nothing.
  std::optional<Key> KeyOf(const Message& push) const;
  static void Become(Sum* sum, State next);
  // Forgets what an earlier process of the rank has pushed.
  void AdoptIncarnation(uint32_t rank, uint64_t incarnation);
  // Takes the rank's push out of those that wait, or wait for their answer.
  static void Forget(uint32_t rank, Sum* sum);
  bool AwaitsOthers(const Key& key, const Sum& sum) const;
  // Sends what waits, one sum for each digest of scalers.
  void SendWaiting(const Key& key, Sum* sum, Actions* out);
  // Sends these pushes, which were coded with the same scalers, as one.
  void SendTogether(const Key& key, std::map<uint32_t, Message> pushes, Actions* out);
  // Adds up the payloads. Returns the rank whose push is invalid, or sets *payload.
  std::optional<uint32_t> AddUp(const Key& key, const std::map<uint32_t, Message>& pushes,
                                Bytes* payload) const;
  void Release(const std::set<uint32_t>& ranks, Actions* out);

  const Options options_;
  uint64_t applied_ = 0;
  std::map<Key, Sum> sums_;
  std::map<uint32_t, Worker> workers_;
  std::optional<Time> due_;  // no sum is due before; nothing: no sum gathers
  Counters counters_;
};

}  // namespace tern::protocol
