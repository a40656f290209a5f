// A worker's place in the job: its connections to every lane of every shard, membership, State, the
// end. It owns the Exchange, because what is sent again depends on which lanes are up.
//
//   kJoining --all lanes up, has state----------------------------------> kRunning
//    |    |                                                                 ^
//    |    +--all up, needs State--> kFetching --all pieces--> kInstalling --+ OnInstalled
//    |                                                          ^
//    +-------all up, its state is with servers or on its disk---+
//
//   any before kLeaving:  Finish --> kLeaving --End--> kEnded
//                         Refuse(rejoin), without state --> kJoining
//   any before kEnded:    GoBack --> kJoining, a new incarnation without state (recovery.h)
//                         Abort, Refuse(leave), deadlines --> kEnded
//
// After GoBack a worker fetches its state from the servers (its owner pulls it and calls
// OnInstalled), or from a checkpoint on its own disk (recovery.h). So may a job's first fetching.
//
// Its links are drawn in links.h. Data links of a shard follow its control link, whose Welcome has
// their ports, and wait for shard 0's Welcome, which says whether this worker's initial weights are
// current. A newcomer greets every lane before it asks for State: from then on no lane's floor can
// pass the State that it will get. If a floor does pass what this worker has applied, others have
// taken its place, and it ends.
//
// A worker that was given up while it was silent (Refuse: rejoin) says hello as a new incarnation
// and continues where it was, in any phase. Under `shrink` the others have gone on without it: it
// drops its state and joins again (kInstall and kReady are emitted again), unless it is leaving. A
// leaving worker stays until shard 0 says End, because others may need what it holds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/members/links.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/members/session_actions.h"
#include "common/protocol/members/state_transfer.h"
#include "common/protocol/rounds/exchange.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

// Timings of a job, as Time. From job.proto's `faults`.
struct Timings {
  Time heartbeat{}, suspect_after{}, dead_after{}, start_timeout{}, wait_timeout{},
      server_return_timeout{};
  Time hello_retry{}, resend_after{};
  Time progress_timeout{};  // zero: the larger of one minute and ten steps
};

class Session {
 public:
  enum class Phase : uint8_t { kJoining, kFetching, kInstalling, kRunning, kLeaving, kEnded };
  struct Options {
    uint32_t rank = 0;
    uint64_t incarnation = 0;          // random, not 0
    std::vector<uint32_t> data_lanes;  // by shard
    std::vector<std::string> servers;  // by shard, for messages
    pb::Hello hello;                   // job, digests, host, pid
    uint64_t credit_bytes = 16 << 20;
    uint64_t max_state_bytes = 0;
    uint32_t piece_bytes = 256 << 10;
    Timings timings;
    bool unsolicited = false;  // as in Exchange: with a quorum, and under shrink
    std::function<bool(const Cell&, LaneRef)> in_plan;  // as in Exchange
    bool shrink = false;                                // on_worker_loss
    Saved saved;                                        // on this worker's disk
    bool keeps_own = false;                             // as in Hello
  };

  explicit Session(Options options);
  Session(const Session&) = delete;  // its links ask it what to say
  Session& operator=(const Session&) = delete;

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
  void SetProgress(uint64_t progress, bool waiting, const pb::Counters& counters);
  // Sets what is on this worker's disk now: checkpoints of the run that it takes part in.
  void SetCheckpoints(std::vector<pb::Checkpoint> checkpoints) {
    options_.saved = {std::move(checkpoints), {}, run_};
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

  Phase phase() const { return phase_; }
  // Times from a heartbeat to its echo.
  struct RoundTrips {
    uint64_t count = 0;
    Time total{}, longest{};
    void Add(Time trip, Time most);  // one that took longer is none
  };
  const RoundTrips& round_trips() const { return round_trips_; }
  const Exchange& exchange() const { return exchange_; }

  // Holds after every event: who runs has state, who fetches or installs it has none; who joins
  // has a lane that is not up; a data link follows a Welcome of its shard; a link that is up is up
  // for the exchange; a Bye says who this worker is now; only who has state keeps snapshots of it.
  Status Check() const;

 private:
  friend class SessionPeer;  // of the tests
  // What it has: nothing; what a server's loss made void (until it has state again, its owner's
  // end of the job does not count); the state after exchange_.applied().
  enum class Has : uint8_t { kNothing, kVoid, kState };
  // Where shard 0's Welcome says that a fresh worker's state comes from; neither: another worker.
  struct Origin {
    std::optional<uint64_t> begin;         // the servers: it is after this round
    std::optional<pb::Checkpoint> resume;  // this checkpoint
  };
  // The only way from phase to phase. False, and nothing changes, where the drawing has no arrow.
  bool Become(Phase next);
  bool has_state() const { return has_ == Has::kState; }
  Message MakeHello(LaneRef lane) const;
  void OnWelcome(LaneRef lane, const pb::Welcome& welcome, Time now, SessionActions* out);
  void OnControlWelcome(uint32_t shard, const pb::Welcome& welcome, Time now, SessionActions* out);
  void OnRefuse(LaneRef lane, const pb::Refuse& refuse, Time now, SessionActions* out);
  void OnRound(LaneRef lane, const Message& message, Time now, SessionActions* out);
  // If this worker was left behind, ends it or (shrink) makes it join again.
  bool IsLeftBehind(uint64_t floor, Time now, SessionActions* out);
  void OnLastWord(const Status& status, SessionActions* out);
  void OnPulse(uint32_t shard, const pb::Pulse& pulse, Time now, SessionActions* out);
  void OnStateWant(const pb::StateWant& want, SessionActions* out);
  void OnStatePiece(const pb::StatePiece& piece, const Bytes& payload, Time now,
                    SessionActions* out);
  void OnGoBack(const pb::GoBack& message, Time now, SessionActions* out);
  void Rejoin(Time now, SessionActions* out);
  void BeginAnew(Time now, SessionActions* out);  // as a new incarnation
  void DropState();
  void AdvanceIfAllUp(Time now, SessionActions* out);
  void AskForState(Time now, SessionActions* out);
  void SendReady(SessionActions* out);
  void SendHeartbeats(Time now, SessionActions* out);
  void SendBye(Time now, SessionActions* out);
  // Ends for a reason of its own, and tells shard 0, if it is there.
  void LeaveWith(const Status& status, SessionActions* out);
  void CheckSilence(Time now, SessionActions* out);
  void EndWith(Status status, SessionActions* out);
  void Emit(std::vector<Exchange::Outgoing> outgoing, SessionActions* out);
  std::string Waiting() const;  // "shard 0 (127.0.0.1:7500), worker 1"

  Options options_;
  Exchange exchange_;
  Phase phase_ = Phase::kJoining;
  Links links_;
  std::optional<Origin> origin_;  // once shard 0 has welcomed it
  Has has_ = Has::kNothing;
  uint64_t epoch_ = 0;
  Time started_at_{}, heartbeat_at_{}, bye_at_{}, leaving_since_{};
  std::vector<uint32_t> absent_;  // from shard 0's last pulse
  std::vector<uint32_t> gone_;    // ... while the job ran
  uint64_t pulses_of_ = 0;        // shard 0's incarnation, from its pulses
  uint64_t run_ = 0;
  uint64_t progress_ = 0;
  bool waiting_ = false;
  pb::Counters counters_;
  RoundTrips round_trips_;
  uint64_t stop_after_ = 0;  // 0: not decided, as far as this worker knows
  StateGiver giver_;
  StateTaker taker_;
  Time asked_at_{};
  pb::Bye bye_;
  Status leave_status_;
  Status stop_;  // as Stop() said; ok: nobody asked
  Time stop_at_{};
};

}  // namespace tern::protocol
