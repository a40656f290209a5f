// Shard 0: decides membership, passes State on, stops and ends the job.
//
//   job:    gathering --all said hello--> running --all said Bye--> ending --all answered--> ended
//               |                            |                        ^
//               +-- deadlines, losses, refusals (everybody is told) --+
//
//   a rank: absent --Hello--> present --silent 1.5 s--> suspect --silent 3 s--> lost
//                              ^   ^                     |heard                  |
//                              |   +---------------------+                       |
//                              +-- `wait`, `shrink`: a new incarnation says hello+ `fail`: the end
//
//   A rank whose compute thread stands is lost as well, and one that leaves.
//   wait:   the others wait for it. It comes back with what it had, or gets State from another
//   shrink: it is no member from then on, and the others go on, at least `min_workers` of them;
//           whoever comes gets State. The job ends when all who are left are done
//
//   Where shard 0 hears none of those who hold the state of the job, its own link may be down.
//   Under `wait` and `shrink` nobody is lost then: they are awaited for up to `wait_timeout`, and
//   go on as if nothing had happened. The state is gone only once each of their processes has left,
//   or was replaced by one without state.
//
//   Who leaves with an error that would come again (IsLasting) ends the job with that error; under
//   `shrink` the others go on without one whose data are bad.
//
//   A message of a worker counts only on the connection that the worker has its place by
//   (MemberOf).
//
//   A worker that has said Bye is done; until all are, it is watched and given up like any other,
//   since the others may need what it holds. An incarnation that was given up or replaced may come
//   back only as a new one (Refuse: rejoin), and only while no other process has had its rank.
//
// Where servers hold the parameters, running may go back to gathering: roll_back.h. Where the job
// has checkpoints, too; and what gathers without any state goes on from one: resume.h.
//
// After a restart of shard 0 the gathering rebuilds all of it from the hellos; under `shrink` it
// does not wait for those who, as the others heard, were gone, nor for anybody beyond the start
// timeout.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/control.h"
#include "common/protocol/farewell.h"
#include "common/protocol/resume.h"
#include "common/protocol/roll_back.h"
#include "common/protocol/stragglers.h"

namespace tern::protocol {

class Coordinator : public Control {
 public:
  explicit Coordinator(ControlOptions options, std::vector<CellSpec> cells);

  void Start(Time now, ControlActions* out) override;
  void OnMessage(Peer from, const Message& message, Time now, ControlActions* out) override;
  void OnTimer(Time now, ControlActions* out) override;
  void OnStop(Code code, Time now, ControlActions* out) override;
  const RoundLane& lane() const override { return lane_; }

  struct Worker {
    enum class Presence { kAbsent, kPresent, kLost, kDone };
    Presence presence = Presence::kAbsent;
    bool suspect = false;
    bool awaited = false;     // silent for longer than dead_after, but not lost: no other is heard
    bool may_return = false;  // lost, and its process may live and come back with the state
    bool joining = false;     // was told to fetch State and has not got it
    bool begins = false;      // ... from the servers, as all do
    uint64_t incarnation = 0;
    uint64_t epoch = 0;        // it was admitted in, as it or we said
    uint64_t first_epoch = 0;  // the first of its process, under whatever incarnation
    Peer peer = 0;
    pb::Hello hello;
    Time heard_at{}, moved_at{}, lost_at{};
    Time excused_at{};  // its silence until then does not count: shard 0 heard nobody
    uint64_t progress = 0;
    uint64_t applied = 0;
    uint64_t steps_done = 0;  // from its Bye
    bool waiting = true;
    uint64_t rival = 0;  // another incarnation that asks for this rank, since when
    Time rival_since{};
    pb::Counters counters;
    uint64_t late_told = 0;         // of counters.late, in the log
    pb::Figures figures;            // from its Bye
    std::vector<uint64_t> retired;  // incarnations that were given up or replaced; the newest few
  };
  const std::vector<Worker>& workers() const { return workers_; }
  bool running() const { return gathered_ && !farewell_.started(); }
  bool ending() const { return farewell_.started(); }
  uint64_t steps() const { return steps_; }

 private:
  struct Follower {
    Peer peer = 0;
    uint64_t incarnation = 0;
    Time heard_at{};
    bool silent = false;
    google::protobuf::RepeatedPtrField<pb::Checkpoint> checkpoints;
    uint64_t rival = 0;  // another incarnation that asks for this place, since when
    Time rival_since{};
  };

  // Of a worker that is there or was lost: who says so on the connection that it has its place by.
  // Null for anybody else, whatever it claims to be.
  Worker* MemberOf(Peer from, uint32_t rank, uint64_t incarnation);
  // A member whose hello on a newer connection was overtaken by an older one, or is not here yet.
  bool IsOnAnotherConnection(Peer from, uint32_t rank, uint64_t incarnation) const;
  // A sign of life of a member.
  void Hear(Worker* worker, Time now);
  // Whether shard 0 heard nobody, for some time now, who holds the state: its link may be down.
  bool HearsNobody(Time now) const;
  // It is up again: whoever was heard as long as anybody has some time to be heard again.
  void Excuse(Time now);
  void OnHello(Peer from, const pb::Hello& said, Time now, ControlActions* out);
  void OnWorkerHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out);
  void OnShardHello(Peer from, const pb::Hello& hello, Time now, ControlActions* out);
  // Whether a hello may have the shard's place; answers it if not.
  bool MayTakePlace(Follower* place, Peer from, const pb::Hello& hello, Time now,
                    ControlActions* out);
  // Whether a hello of another incarnation may have the rank; answers it if not.
  bool MayTake(Worker* worker, Peer from, const pb::Hello& hello, Time now, ControlActions* out);
  void Admit(Worker* worker, Peer from, const pb::Hello& hello, Time now, ControlActions* out);
  void GreetLane(const Worker& worker, ControlActions* out);
  bool HasGathered(Time now) const;
  bool HasGatheredAgain(Time now) const;
  void GatherIfComplete(Time now, ControlActions* out);
  void AdmitGathered(Time now);
  // Whether the state of the job is lost, or one who gathered is too far behind to have been a
  // member; acts on it.
  bool CannotGather(Time now, ControlActions* out);
  void Welcome(const Worker& worker, ControlActions* out);
  pb::Members Members() const;
  void PublishMembers(ControlActions* out);
  void OnPulse(Peer from, const pb::Pulse& pulse, Time now, ControlActions* out);
  void OnHeartbeat(Peer from, const pb::Heartbeat& beat, Time now, ControlActions* out);
  void OnRound(Peer from, const Message& message, Time now, ControlActions* out);
  void OnStateWant(Peer from, const Message& message, Time now, ControlActions* out);
  void OnStatePiece(Peer from, const Message& message, ControlActions* out);
  void OnBye(Peer from, const pb::Bye& bye, Time now, ControlActions* out);
  void OnFailure(Peer from, const pb::Bye& bye, Time now, ControlActions* out);
  void OnStopFrom(const std::string& who, uint32_t code, Time now, ControlActions* out);
  // Going back; see roll_back.h.
  bool HasSnapshots() const { return static_cast<bool>(options_.snapshots); }
  bool CanGoBack() const { return HasSnapshots() || options_.resumes; }
  void GoBack(const std::string& why, Time now, ControlActions* out);
  // No live worker holds the state of the job: it goes back where it can, or ends.
  void LoseState(const std::string& what, Code code, Time now, ControlActions* out);
  void TellToGoBack(Worker* worker, ControlActions* out);
  // Whether all that gathered may begin, and `begin_` says where; sees to it if not.
  bool MayBegin(Time now, ControlActions* out);
  // Of workers that were ever admitted: whether there are any, who are told to come anew then.
  bool CallAnew(Time now, ControlActions* out);
  // The same where nobody holds the state of the job; see resume.h.
  bool MayResume(Time now, ControlActions* out);
  bool NobodyHoldsState() const;
  // Whether a worker, but for this one, holds the state of the running job or may come back with
  // it.
  bool MayHoldStateBeside(const Worker* except) const;
  std::optional<pb::Checkpoint> NewestCheckpoint() const;
  bool ShardsHaveOffered() const;
  void AskForCheckpoints(Time now, ControlActions* out);
  // One comes back to a job that runs, without what only its checkpoints have.
  bool TakesAllBack(const pb::Hello& hello) const;
  void GoOnFrom(const pb::Checkpoint& checkpoint, ControlActions* out);
  void AskForSnapshots(Time now, ControlActions* out);
  void OnSnapshots(Peer from, const pb::GoBack& answer, Time now, ControlActions* out);
  struct Loss {
    std::string why;
    Code code = Code::kPeerLost;  // of the job, if it ends by this
    bool left = false;            // its process is gone
  };
  void Lose(uint32_t rank, const Loss& loss, Time now, ControlActions* out);
  // shrink
  void GoOnWithout(const std::string& what, Code code, Time now, ControlActions* out);
  void NameIfLate(uint32_t rank, ControlActions* out);
  Time ProgressTimeout(const Worker& worker) const;
  void CheckSilence(uint32_t rank, Time now, ControlActions* out);
  void Await(uint32_t rank, Time now, ControlActions* out);
  void CheckFollowers(Time now, ControlActions* out);
  void SendPulses(Time now, ControlActions* out);
  void EndIfAllDone(Time now, ControlActions* out);
  // How a job ends whose workers are all done: well, or stopped before its last step.
  Status EndOfJob() const;
  void Abort(Code code, const std::string& sentence, Time now, ControlActions* out);
  std::vector<Farewell::Guest> Guests() const;
  // What one whose incarnation is no longer good has to do.
  Message GivenUp(uint64_t incarnation) const;
  // Makes it nobody, and remembers its incarnation.
  static void Retire(Worker* worker);
  static bool IsLive(const Worker& worker) {
    return worker.presence == Worker::Presence::kPresent ||
           worker.presence == Worker::Presence::kDone;
  }
  size_t Live() const;
  std::string LiveText() const;           // "3 of 4 workers"
  std::string Name(uint32_t rank) const;  // "worker 1 (node3, pid 4711)"
  Worker* ByPeer(Peer peer);

  ControlOptions options_;
  RoundLane lane_;
  std::vector<Worker> workers_;
  Stragglers stragglers_;
  std::map<uint32_t, Follower> followers_;  // by shard
  bool gathered_ = false;
  bool going_back_ = false;  // gathering what had begun
  bool called_ = false;      // ... and everybody who was there has been told to come
  SnapshotPoll poll_;
  Time asked_at_{};
  uint64_t begin_ = 0;  // all get the parameters after this round from the servers
  std::optional<pb::Checkpoint> resume_;  // ... or from this checkpoint of their own
  uint64_t beginning_ = 0;
  uint64_t reached_ = 0;  // round before going back
  Farewell farewell_;
  uint64_t epoch_ = 0;
  uint64_t run_ = 0;            // of this run of the job
  uint64_t steps_ = 0;          // rounds of the job, as the first worker said
  Code stop_code_ = Code::kOk;  // 130 or 143 once asked to stop
  Time started_at_{}, pulse_at_{};
};

}  // namespace tern::protocol
