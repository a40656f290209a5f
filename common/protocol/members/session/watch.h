// How a worker's session handles the shards' pulses (heartbeats), their silence and lost
// connections.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/protocol/members/session/fetching.h"
#include "common/protocol/members/session/leaving.h"
#include "common/protocol/members/session/rejoining.h"
#include "common/protocol/members/session/session_state.h"

namespace tern::protocol {

// A part of Session. It alone sets SessionState::absent_ranks; it replaces connections.
class Watch {
 public:
  Watch(SessionState* state, Leaving* leaving, Fetching* fetching, Rejoining* rejoining)
      : state_(*state), leaving_(*leaving), fetching_(*fetching), rejoining_(*rejoining) {}

  // All calls REQUIRE a session that has not ended.
  void OnPulse(uint32_t shard, const pb::Pulse& pulse, Time now, SessionActions* out);
  void OnDisconnected(LaneRef lane, Time now, SessionActions* out);
  // A message on the lane arrived damaged, as `why` says.
  void OnDamaged(LaneRef lane, const std::string& why, Time now, SessionActions* out);
  // Replaces silent connections; ends the session if a deadline has passed.
  void OnTimer(Time now, SessionActions* out);
  // Shard 0 has welcomed this worker. Remembers the incarnation of shard 0, because shard 0 may die
  // before its first pulse.
  void OnWelcomeOfShard0(uint64_t incarnation);
  // For whom a worker waits that is joining, or that a shard is not connected to: "worker 1, worker
  // 2", for example. A shard that answers is not missing, although it has not welcomed this worker.
  std::string WhoIsMissing(Time now) const;

 private:
  void OnPulseOfShard0(const pb::Pulse& pulse, Time now);
  // Whether the job has begun for this worker, and this shard has taken part: the worker is not
  // joining, or shard 0 has welcomed it as the incarnation that it is now, and the shard has sent a
  // Welcome before.
  bool HasBegunWith(uint32_t shard) const;
  // If the shard was silent for too long: ends the session and returns true.
  bool LeaveIfLost(uint32_t shard, Time now, SessionActions* out);
  // If an obstacle keeps this worker from the shard: logs that once.
  void LogObstacle(uint32_t shard, SessionActions* out);
  // If an obstacle keeps this worker from the shard: ends the session and returns true.
  bool LeaveIfHindered(uint32_t shard, Time waited, SessionActions* out);
  void ReplaceIfSilent(uint32_t shard, Time now, SessionActions* out);
  // Logs from time to time for whom this worker waits, if it joins or a shard is not connected.
  void LogWhoIsMissing(Time now, SessionActions* out);
  // Whether the shard has said something within suspect_after.
  bool Hears(uint32_t shard, Time now) const;

  SessionState& state_;
  Leaving& leaving_;
  Fetching& fetching_;
  Rejoining& rejoining_;
  std::vector<uint32_t> absent_ranks_;  // the ranks that shard 0's last pulse named as absent
  bool is_gathering_ = true;         // by shard 0's last pulse: the job does not run yet, or again
  Time missing_logged_at_{};         // when nobody was missing any more, or that was last logged
  uint64_t shard0_incarnation_ = 0;  // from shard 0's newest pulse or first Welcome; 0: none yet
};

}  // namespace tern::protocol
