// What shard 0 tells the workers, the other shards and its own lanes of who the members are.
#pragma once

#include <cstdint>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/job_state.h"

namespace tern::protocol {

class Membership {
 public:
  explicit Membership(JobState* job) : job_(*job) {}

  // To the lanes of this shard, and to all other shards.
  void Publish(ControlActions* out);
  // Publishes a membership of a new epoch.
  void PublishNext(ControlActions* out);
  void TellShard(Peer shard, ControlActions* out) const;
  // Answers the hello of a member: Welcome, and the control lane's own answers.
  void WelcomeMember(const Roster::Worker& worker, ControlActions* out);
  // The same for all live workers at once. The lane hears of all before the first is welcome.
  void WelcomeAll(ControlActions* out);
  // What a worker whose incarnation is no longer good has to do.
  Message GivenUp(uint64_t incarnation) const;

 private:
  pb::Members Members() const;
  void GreetLane(const Roster::Worker& worker, ControlActions* out);
  void Welcome(const Roster::Worker& worker, ControlActions* out) const;

  JobState& job_;
};

}  // namespace tern::protocol
