// What a lane (the state machine behind one socket of a server shard) knows of the workers: which
// are members, on which connection, and which rounds each has applied. An incarnation is a random
// number that names a process; a lost worker that joins again has a new one. An epoch is the number
// of a membership.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/lane.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

struct LaneMember {
  uint64_t incarnation = 0;  // 0: the rank is not a member, and the job continues without it
  Peer peer = 0;
  bool has_greeted = false;       // has said hello on this lane
  bool is_joining = false;        // must first fetch State (all that a worker needs to continue)
  bool is_applied_known = false;  // whether this incarnation has reported `applied`
  uint64_t applied = 0;           // the newest round whose result it has applied

  bool present() const { return incarnation != 0; }
  // Whether it is present and, as far as this lane knows, is not fetching State.
  bool settled() const { return present() && (is_applied_known || !is_joining); }
};

class LaneMembers {
 public:
  explicit LaneMembers(uint32_t num_workers) : members_(num_workers) {}

  // Adopts a membership; ignores a membership that is older than the adopted one. A new member's
  // `applied` is unknown until the member reports it, because the member may start from old State.
  // Removes a rank whose incarnation is 0.
  void OnMembers(const pb::Members& members);
  // Returns the member that says hello. If the sender is no member, refuses the hello and returns
  // null. The refusal says `retry`, because the sender's membership may still be on its way to this
  // shard.
  LaneMember* OnHello(Peer from, const pb::Hello& hello, Sends* out);
  // Returns the member of this rank if it has this incarnation, or if `must_match` is false; else
  // null.
  LaneMember* FindMember(uint32_t rank, uint64_t incarnation, bool must_match);
  // The member reports what it has applied; an older report changes nothing.
  static void SetApplied(LaneMember* member, uint64_t applied);

  // Whether the lane knows a membership and every present member has said hello.
  bool complete() const;
  bool IsPeerOfMember(Peer peer) const;
  uint64_t epoch() const { return epoch_; }
  size_t size() const { return members_.size(); }
  const LaneMember& operator[](size_t rank) const { return members_[rank]; }
  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }

 private:
  std::vector<LaneMember> members_;
  uint64_t epoch_ = 0;
};

// `members` arrives at a lane that knows the run `known_run` and the beginning `known_beginning`
// (Members.run and Members.beginning in wire.proto; 0: none yet). Returns the round after which the
// lane must go on, with no members and no slots; nullopt: it goes on as it is. A new run without a
// beginning begins at initial weights: shard 0 and all workers were lost, but not this process.
std::optional<uint64_t> RoundToGoBackTo(const pb::Members& members, uint64_t known_run,
                                        uint64_t known_beginning);
// Refuses a message that names a member, but came on another connection than the member's hello. A
// true member then says hello on this connection.
Send RefuseOtherConnection(Peer from);
// Refuses all members, who then end the job with kMismatch and this sentence.
void RefuseAllMembers(const LaneMembers& members, const std::string& sentence, Sends* out);
// Makes a lane's answer to a member's hello. `incarnation`: that of the server process.
Message MakeLaneWelcome(uint64_t incarnation, uint64_t epoch,
                        const std::vector<uint32_t>& data_ports);
// Adds to the answer to a probe that the lane has counted a contribution of the sender; but no more
// of them than fit into a header. The sender repeats the others, which does no harm.
void AddCounted(const Cell& cell, uint64_t exchange, pb::Welcome* welcome);

}  // namespace tern::protocol
