// How shard 0 finds out who is alive, and what happens when a worker is lost.
//
//   a rank: absent --Hello--> present --silent 1.5 s--> suspect --silent 3 s--> lost
//                              ^   ^                     | heard                 |
//                              |   +---------------------+                       |
//                              +--- `wait`, `shrink`: a new incarnation says hello
//
//   fail:   the job ends when a rank is lost
//   wait:   the others wait for the rank. It comes back with its state, or gets State from another
//   shrink: the rank is no longer a member, and the others continue, at least `min_workers` of
//           them; a newcomer gets State. The job ends when all remaining members are done
//
// A rank whose compute thread hangs is lost as well, and so is one that leaves.
//
// If shard 0 hears none of the workers that hold the state of the job, its own link may be down.
// Under `wait` and `shrink` they are awaited for up to `wait_timeout` instead of lost, and continue
// when they are heard again. The state is gone only when each of their processes has left or was
// replaced by one without state.
#pragma once

#include <cstdint>
#include <string>

#include "common/protocol/members/control.h"
#include "common/protocol/members/shard0/ending.h"
#include "common/protocol/members/shard0/going_back.h"
#include "common/protocol/members/shard0/job_state.h"
#include "common/protocol/members/shard0/membership.h"
#include "common/protocol/members/shard0/stragglers.h"

namespace tern::protocol {

// Changes the roster's presences, and the times at which workers and shards were heard.
class Liveness {
 public:
  Liveness(JobState* job, Ending* ending, Membership* membership, GoingBack* going_back)
      : job_(*job),
        ending_(*ending),
        membership_(*membership),
        going_back_(*going_back),
        stragglers_(job->options.workers) {}

  void Start(Time now);
  // A sign of life of a member.
  void Hear(Roster::Worker* worker, Time now);
  // The heartbeat of a member that is not lost.
  void OnHeartbeat(Roster::Worker* worker, const pb::Heartbeat& beat, Time now,
                   ControlActions* out);
  // A new process has this rank. What is known of the speed of the one before does not count.
  void OnNewcomer(const Roster::Worker& worker, uint32_t rank, Time now);
  // Sends pulses; finds the workers and shards that are silent, or whose compute thread hangs.
  void OnTimer(Time now, ControlActions* out);

  struct Loss {
    std::string why;
    Code code = Code::kPeerLost;  // of the job, if it ends by this
    bool left = false;            // its process is gone
  };
  void Lose(uint32_t rank, const Loss& loss, Time now, ControlActions* out);

 private:
  // Whether shard 0 heard nobody, for some time now, who holds the state: its link may be down.
  bool HearsNobody(Time now) const;
  // The link is up again: whoever was heard as long as anybody has some time to be heard again.
  void Excuse(Time now);
  void Await(uint32_t rank, Time now, ControlActions* out);
  void GoOnWithout(const std::string& what, Code code, Time now, ControlActions* out);
  void CheckSilence(uint32_t rank, Time now, ControlActions* out);
  void CheckFollowers(Time now, ControlActions* out);
  void SendPulses(Time now, ControlActions* out);
  void NameIfLate(uint32_t rank, ControlActions* out);
  Time ProgressTimeout(const Roster::Worker& worker) const;

  JobState& job_;
  Ending& ending_;
  Membership& membership_;
  GoingBack& going_back_;
  Stragglers stragglers_;
  Time pulse_at_{};
};

}  // namespace tern::protocol
