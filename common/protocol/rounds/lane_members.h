// A lane's view of the workers: who is a member, on which connection, and what each has applied.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/rounds/lane.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

struct LaneMember {
  uint64_t incarnation = 0;  // 0: nobody; the job goes on without this rank
  Peer peer = 0;
  bool greeted = false;  // has said hello on this lane
  bool joining = false;  // has to fetch State first
  bool known = false;    // `applied` belongs to this incarnation
  uint64_t applied = 0;

  bool present() const { return incarnation != 0; }
  // Present, and not fetching State, as far as this lane knows.
  bool settled() const { return present() && (known || !joining); }
};

class LaneMembers {
 public:
  explicit LaneMembers(uint32_t workers) : members_(workers) {}

  // Takes over a newer membership. A newcomer may hold State as old as the floor, so its `applied`
  // is unknown until it reports it. A rank with incarnation 0 is removed.
  void OnMembers(const pb::Members& members);
  // The member that says hello. Null if it is not a member: then it is refused with `retry`,
  // because the membership may still be on its way to this shard.
  LaneMember* OnHello(Peer from, const pb::Hello& hello, Sends* out);
  // The member of this rank if it has this incarnation (or `fence` is off); else null.
  LaneMember* Find(uint32_t rank, uint64_t incarnation, bool fence);
  static void ShowApplied(LaneMember* member, uint64_t applied);

  // Whether there is a membership and every present member has greeted.
  bool complete() const;
  bool IsPeer(Peer peer) const;
  uint64_t epoch() const { return epoch_; }
  size_t size() const { return members_.size(); }
  const LaneMember& operator[](size_t rank) const { return members_[rank]; }
  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }

 private:
  std::vector<LaneMember> members_;
  uint64_t epoch_ = 0;
};

Message MakeLaneWelcome(uint64_t incarnation, uint64_t epoch,
                        const std::vector<uint32_t>& data_ports);

}  // namespace tern::protocol
