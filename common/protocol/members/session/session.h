// The worker's side of the protocol, as a state machine without sockets and clocks: its connections
// to every lane (socket) of every server shard, its membership, how it gets the state of the job,
// and how it ends. One thread calls it and executes its actions (session_actions.h). It owns the
// Exchange (unanswered contributions), because what must be sent again depends on which lanes are
// up. The session consists of parts, and passes each message to the part that handles it:
//
//   session_state  the data that all parts share; the diagram of the phases is there
//   heartbeats     sends heartbeats
//   leaving        ends the session
//   fetching       gets the state of the job, and sends it to other workers
//   rejoining      says hello as a new incarnation (a new random number identifies the worker)
//   watch          handles the shards' pulses (heartbeats), and their silence
//
// A part calls only parts above it in this list. links.h has the states of a connection (link). The
// data links of a shard open after two messages: the Welcome on the shard's control link, which has
// their ports, and shard 0's Welcome, which says whether this worker's initial weights are current.
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
  // The socket reports that the connection of `lane` is lost. Without this call the session would
  // notice a lost control lane later, and a lost data lane never.
  void OnDisconnected(LaneRef lane, Time now, SessionActions* out);
  // A message on `lane` is malformed, and `why` says how: it arrived damaged. Replaces the
  // connection.
  void OnDamaged(LaneRef lane, const std::string& why, Time now, SessionActions* out);
  // Why this worker gets no connection to the shard (ObstacleError); Ok: nothing is known. The
  // session logs it at once, and goes on trying: keys may be replaced, and names may come. When the
  // time to start or to come back is over, it ends with this error.
  void SetObstacle(uint32_t shard, Status obstacle) {
    state_.links.shard(shard).obstacle = std::move(obstacle);
  }
  // Call at least every `Timings::hello_retry` / 2.
  void OnTimer(Time now, SessionActions* out);

  // Sends a contribution to a cell (one reduction over the workers) of that lane, now or when the
  // limit of unanswered bytes (SessionOptions::credit_bytes) allows. A worker without state sends
  // nothing, because the state from which it computed the contribution is lost. Exception: a Pull
  // that gets the state.
  void Contribute(const Cell& cell, LaneRef lane, Contribution contribution, Time now,
                  SessionActions* out);
  // With exchange.host_sum: what this worker knows of its host's leader (Exchange::OnLeader).
  void OnLeader(Exchange::Leader leader, Time now, SessionActions* out);
  // This worker has applied all rounds up to `applied`. REQUIRES that every answer of those rounds
  // was delivered, also the answers to figures (the workers' metrics).
  void SetApplied(uint64_t applied);
  // Sets what the next heartbeats report. `progress` grows whenever the compute thread or the coder
  // thread advances; `waiting`: both wait for other daemons.
  void SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters) {
    state_.progress = progress;
    heartbeats_.Set(waiting, counters);
  }
  // Sets the checkpoints of the current run that are on this worker's disk now.
  void SetCheckpoints(std::vector<pb::Checkpoint> checkpoints) {
    state_.options.saved_checkpoints = {std::move(checkpoints), {}, state_.run};
  }
  // Call after the action kSnapshot (session_actions.h): `state` is the serialized state of this
  // worker after round `applied`.
  void OnSnapshot(const Bytes& state, uint64_t applied, SessionActions* out);
  // Call after one of the actions kInstall, kResume and kGoBack, when the state after round
  // `applied` is in place.
  void OnInstalled(uint64_t applied, Time now, SessionActions* out);
  // This worker has finished the job (`status` ok), or leaves with an error. An ok status is
  // ignored between a GoBack message and OnInstalled(), because the caller had finished before it
  // knew that the job goes back. `steps`: how many of the job's steps its weights include; 0 in a
  // job without rounds.
  void Finish(const Status& status, const pb::Figures& figures, const pb::Counters& counters,
              uint64_t steps, Time now, SessionActions* out);
  // The process received a stop signal, which `status` names. Until the job ends, the heartbeats
  // ask shard 0 to stop the job. If shard 0 is silent for dead_after, this worker ends without it,
  // with the code of `status`.
  void Stop(const Status& status, Time now, SessionActions* out);

  // The process was asked for a checkpoint (SIGUSR1). The heartbeats ask shard 0 for one of all
  // daemons.
  void RequestCheckpoint() { ++state_.checkpoint_requests; }

  Phase phase() const { return state_.phase(); }
  // What keeps this worker from taking part, for example "server shard 0 (127.0.0.1:7500)"; empty
  // if nothing does.
  std::string WaitingFor(Time now) const;
  // Times from a heartbeat to its echo.
  struct RoundTrips {
    uint64_t count = 0;
    Time total{}, longest{};
    // Ignores negative trips and those above `longest_valid`.
    void Add(Time trip, Time longest_valid);
  };
  const RoundTrips& round_trips() const { return round_trips_; }
  const Exchange& exchange() const { return state_.exchange; }

  // Checks the invariants of the parts, which hold after every event.
  Status Check() const;

 private:
  friend class SessionPeer;  // gives tests access to private members

  void OnWelcome(LaneRef lane, const pb::Welcome& welcome, Time now, SessionActions* out);
  // Returns false if the session ends.
  bool OnControlWelcome(uint32_t shard, const pb::Welcome& welcome, Time now, SessionActions* out);
  void OnWelcomeOfShard0(const pb::Welcome& welcome, Time now, SessionActions* out);
  void OnRefuse(LaneRef lane, const pb::Refuse& refuse, Time now, SessionActions* out);

  SessionState state_;
  Heartbeats heartbeats_{&state_};
  Leaving leaving_{&state_, &heartbeats_};
  Fetching fetching_{&state_, &heartbeats_, &leaving_};
  Rejoining rejoining_{&state_, &leaving_, &fetching_};
  Watch watch_{&state_, &leaving_, &fetching_, &rejoining_};
  RoundTrips round_trips_;
};

}  // namespace tern::protocol
