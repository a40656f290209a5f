// A worker's place in the job: its connections to every lane of every shard, membership, State, the
// end. It owns the Exchange, because what is sent again depends on which lanes are up.
//
//              all lanes up,          State installed
//   joining --+ has state ---------------------------> running --Finish--> leaving --End--> ended
//             |                             ^
//             +-- needs state --> fetching -+
//
//   any state --Abort, Refuse(leave), deadlines--> ended
//   any state but ended --GoBack--> joining, as a new incarnation without state (roll_back.h)
//
// After GoBack a worker fetches its state from the servers (its owner pulls it and calls
// OnInstalled), or from a checkpoint on its own disk (resume.h). So may a job's first fetching.
//
// A link (one lane):
//
//   down --connect, Hello--> greeting --Welcome--> up --server silent or replaced--> down
//
// Data links of a shard follow its control link, whose Welcome has their ports, and wait for shard
// 0's Welcome, which says whether this worker's initial weights are current. A newcomer greets
// every lane before it asks for State: from then on no lane's floor can pass the State that it will
// get. If a floor does pass what this worker has applied, others have taken its place, and it ends.
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
#include "common/protocol/members/resume.h"
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
  enum class Phase { kJoining, kFetching, kRunning, kLeaving, kEnded };
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

  void Start(Time now, SessionActions* out);
  void OnMessage(LaneRef lane, const Message& message, Time now, SessionActions* out);
  // The connection of `lane` is known to be lost. On control lanes silence shows it as well, but
  // later; on data lanes nothing else does.
  void OnDisconnected(LaneRef lane, Time now, SessionActions* out);
  // Call at least every hello_retry / 2.
  void OnTimer(Time now, SessionActions* out);

  // Ignored while this worker has no state (except for pulls of it): the state that the
  // contribution was computed from is gone.
  void Contribute(const Cell& cell, uint64_t round, LaneRef lane, uint64_t digest, Bytes payload,
                  Time now, SessionActions* out, const Request& request = {});
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
  };
  const RoundTrips& round_trips() const { return round_trips_; }
  const Exchange& exchange() const { return exchange_; }

 private:
  enum class LinkState { kDown, kGreeting, kUp };
  struct Link {
    LinkState state = LinkState::kDown;
    uint32_t port = 0;
    Time connected_at{}, hello_at{};
  };
  struct Shard {
    uint64_t incarnation = 0;  // of the server, once welcomed
    std::vector<uint32_t> data_ports;
    Time heard_at{};
  };
  Link& link(LaneRef lane) { return links_[lane.shard][lane.lane]; }
  void Connect(LaneRef lane, uint32_t port, Time now, SessionActions* out);
  void SendHello(LaneRef lane, Time now, SessionActions* out);
  void ConnectDataLanes(uint32_t shard, Time now, SessionActions* out);
  void LoseShard(uint32_t shard, Time now, const std::string& why, SessionActions* out);
  void OnWelcome(LaneRef lane, const pb::Welcome& welcome, Time now, SessionActions* out);
  void OnControlWelcome(uint32_t shard, const pb::Welcome& welcome, Time now, SessionActions* out);
  void OnRefuse(LaneRef lane, const pb::Refuse& refuse, Time now, SessionActions* out);
  void OnRound(LaneRef lane, const Message& message, Time now, SessionActions* out);
  // If this worker was left behind, ends it or (shrink) makes it join again.
  bool IsLeftBehind(uint64_t floor, Time now, SessionActions* out);
  void OnLastWord(const Status& status, SessionActions* out);
  void OnEcho(const pb::Echo& echo, Time now);
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
  void RepairLinks(Time now, SessionActions* out);
  void SendHeartbeats(Time now, SessionActions* out);
  void SendBye(Time now, SessionActions* out);
  bool MayHearOfStop(Time now) const;
  // Ends for a reason of its own, and tells shard 0, if it is there.
  void LeaveWith(const Status& status, SessionActions* out);
  void CheckSilence(Time now, SessionActions* out);
  void EndWith(Status status, SessionActions* out);
  void Emit(std::vector<Exchange::Outgoing> outgoing, SessionActions* out);
  std::string Waiting() const;  // "shard 0 (127.0.0.1:7500), worker 1"

  Options options_;
  Exchange exchange_;
  Phase phase_ = Phase::kJoining;
  std::vector<std::vector<Link>> links_;  // by shard, lane
  std::vector<Shard> shards_;
  bool welcomed_ = false;  // by shard 0
  bool has_state_ = false;
  std::optional<uint64_t> begin_;  // its state comes from the servers and is after this round
  std::optional<pb::Checkpoint> resume_;  // ... or comes from this checkpoint
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
  bool installing_ = false, going_back_ = false;
  pb::Bye bye_;
  Status leave_status_;
  Status stop_;  // as Stop() said; ok: nobody asked
  Time stop_at_{};
};

}  // namespace tern::protocol
