// How shard 0 tells the workers, the other shards and its own lanes (the state machines behind its
// sockets) who the members of the job are.
#pragma once

#include <cstdint>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/job_state.h"

namespace tern::protocol {

class Membership {
 public:
  explicit Membership(JobState* job) : job_(*job) {}

  // Sends the membership to all lanes of this shard and to all other shards.
  void Publish(ControlActions* out);
  // Increments the epoch, and publishes the membership.
  void PublishNext(ControlActions* out);
  // Sends the membership to one shard.
  void TellShard(Peer shard, ControlActions* out) const;
  // Answers a member's hello: with Welcome, and with the outcomes of the control lane that the
  // member may have missed.
  void WelcomeMember(const Roster::Worker& worker, ControlActions* out);
  // Welcomes all live workers. Passes all their hellos to the control lane before it sends the
  // first Welcome.
  void WelcomeAll(ControlActions* out);
  // Returns the answer to a worker whose incarnation was removed or replaced: GoBack or Refuse.
  // Both tell the worker to come back as a new incarnation.
  Message AnswerToRemovedWorker(uint64_t incarnation) const;

 private:
  pb::Members MakeMembers() const;
  void PassHelloToLane(const Roster::Worker& worker, ControlActions* out);
  void SendWelcome(const Roster::Worker& worker, ControlActions* out) const;

  JobState& job_;
};

}  // namespace tern::protocol
