// A worker's place in the job: its connections to every lane of every shard, membership, State, the
// end. It owns the Exchange, because what is sent again depends on which lanes are up. What it does
// is in its parts; it takes messages apart, and each goes to the part that decides:
//
//   session_state  the phase (drawn there), and what the worker is and holds
//   heartbeats     its signs of life
//   leaving        how it ends
//   fetching       how it comes to the state of the job, and gives it to others
//   rejoining      how it comes again as a new incarnation
//   watch          what it learns from the shards' signs of life, and from their silence
//
// Each part calls those above it alone. The links are drawn in links.h. Data links of a shard
// follow its control link, whose Welcome has their ports, and wait for shard 0's Welcome, which
// says whether this worker's initial weights are current.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/members/session/fetching.h"
#include "common/protocol/members/session/heartbeats.h"
#include "common/protocol/members/session/leaving.h"
#include "common/protocol/members/session/rejoining.h"
#include "common/protocol/members/session/session_actions.h"
#include "common/protocol/members/session/session_state.h"
#include "common/protocol/members/session/watch.h"
#include "common/protocol/rounds/exchange.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

class Session {
 public:
  using Phase = SessionPhase;
  using Options = SessionOptions;

  explicit Session(Options options) : state_(std::move(options)) {}

  void Start(Time now, SessionActions* out);
  void OnMessage(LaneRef lane, const Message& message, Time now, SessionActions* out);
  // The connection of `lane` is known to be lost. On control lanes silence shows it as well, but
  // later; on data lanes nothing else does.
  void OnDisconnected(LaneRef lane, Time now, SessionActions* out);
  // Call at least every hello_retry / 2.
  void OnTimer(Time now, SessionActions* out);

  // Ignored while this worker has no state (except for pulls of it): the state that the
  // contribution was computed from is gone.
  void Contribute(const Cell& cell, LaneRef lane, Contribution contribution, Time now,
                  SessionActions* out);
  // REQUIRES that every answer of the rounds up to `applied` was delivered, figures included.
  void SetApplied(uint64_t applied);
  void SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters) {
    heartbeats_.SetProgress(progress, waiting, counters);
  }
  // Sets what is on this worker's disk now: checkpoints of the run that it takes part in.
  void SetCheckpoints(std::vector<pb::Checkpoint> checkpoints) {
    state_.options.saved = {std::move(checkpoints), {}, state_.run};
  }
  void OnSnapshot(Bytes state, uint64_t applied, Time now, SessionActions* out);
  // Call after kInstall, kResume or kGoBack, when the state after `applied` is in place.
  void OnInstalled(uint64_t applied, Time now, SessionActions* out);
  // The last message: the job is done (ok), or this worker leaves with `status`. Ignored as an end
  // of the job between GoBack and OnInstalled(): the owner decided before it knew of GoBack.
  // `steps` as Bye.steps; 0 in a job without rounds.
  void Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
              uint64_t steps, Time now, SessionActions* out);
  // A signal asks for the end of the job, `status` says which: shard 0 is told until the job ends.
  // Where shard 0 is not there for dead_after, this worker ends alone with the code of `status`.
  void Stop(const Status& status, Time now, SessionActions* out);

  Phase phase() const { return state_.phase(); }
  // Times from a heartbeat to its echo.
  struct RoundTrips {
    uint64_t count = 0;
    Time total{}, longest{};
    void Add(Time trip, Time most);  // one that took longer is none
  };
  const RoundTrips& round_trips() const { return round_trips_; }
  const Exchange& exchange() const { return state_.exchange; }

  // Holds after every event: the invariants of the parts.
  Status Check() const;

 private:
  friend class SessionPeer;  // of the tests

  void OnWelcome(LaneRef lane, const pb::Welcome& welcome, Time now, SessionActions* out);
  // False: the session ends.
  bool OnControlWelcome(uint32_t shard, const pb::Welcome& welcome, Time now, SessionActions* out);
  void OnWelcomeOfShard0(const pb::Welcome& welcome, Time now, SessionActions* out);
  void OnRefuse(LaneRef lane, const pb::Refuse& refuse, Time now, SessionActions* out);
  void OnRound(LaneRef lane, const Message& message, Time now, SessionActions* out);
  void OnEnd(const pb::End& end, SessionActions* out);

  SessionState state_;
  Heartbeats heartbeats_{&state_};
  Leaving leaving_{&state_, &heartbeats_};
  Fetching fetching_{&state_, &heartbeats_, &leaving_};
  Rejoining rejoining_{&state_, &leaving_, &fetching_};
  Watch watch_{&state_, &leaving_, &fetching_, &rejoining_};
  RoundTrips round_trips_;
};

}  // namespace tern::protocol
