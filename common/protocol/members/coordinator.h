// Shard 0: decides membership, passes State on, stops and ends the job.
//
//   job:    gathering --all said hello--> running --all said Bye--> ending --all answered--> ended
//               |                            |                        ^
//               +-- deadlines, losses, refusals (everybody is told) --+
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
// A rank whose compute thread hangs is lost as well, and so is one that leaves. A worker that ends
// with an error that a restart would repeat (IsLasting) ends the job with that error, except under
// `shrink` where only that worker's data are bad: the others continue.
//
// If shard 0 hears none of the workers that hold the state of the job, its own link may be down.
// Under `wait` and `shrink` they are awaited for up to `wait_timeout` instead of lost, and continue
// when they are heard again. The state is gone only when each of their processes has left or was
// replaced by one without state.
//
// A worker's message counts only on the connection of the worker's admitted hello (MemberOf).
//
// A worker that has said Bye is done. Until all are done it is watched and lost like any other,
// because the others may need what it holds. An incarnation that was lost or replaced can come back
// only as a new one (Refuse: rejoin), and only while no other process has its rank.
//
// Where servers hold the parameters, or there are checkpoints, a running job can go back to
// gathering; and a gathering without any state goes on from a checkpoint (recovery.h).
//
// After a restart of shard 0 the gathering rebuilds everything from the hellos. Under `shrink` it
// does not wait for ranks that the others report as removed, nor for any rank beyond the start
// timeout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/protocol/members/control.h"
#include "common/protocol/members/farewell.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/members/roster.h"
#include "common/protocol/members/stragglers.h"

namespace tern::protocol {

class Coordinator : public Control {
 public:
  explicit Coordinator(ControlOptions options, std::vector<CellSpec> cells);

  void Start(Time now, ControlActions* out) override;
  void OnMessage(Peer from, const Message& message, Time now, ControlActions* out) override;
  void OnTimer(Time now, ControlActions* out) override;
  void OnStop(Code code, Time now, ControlActions* out) override;
  void OnFailure(const Status& status, Time now, ControlActions* out) override;
  const RoundLane& lane() const override { return lane_; }
  // kInternal names the invariant that is broken.
  Status Check() const;

  using Worker = Roster::Worker;
  const std::vector<Worker>& workers() const { return roster_.workers; }
  bool running() const { return gathered_ && !farewell_.started(); }
  bool ending() const { return farewell_.started(); }
  uint64_t steps() const { return roster_.steps; }
  // Another value: all have gone back to a checkpoint, or begun from one. Workers that have yet to
  // take it up are `joining`.
  uint64_t beginning() const { return beginning_; }

 private:
  friend class CoordinatorPeer;  // of tests: plants faults

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
  bool MayTakePlace(Roster::Shard* place, Peer from, const pb::Hello& hello, Time now,
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
  void OnShardAbort(Peer from, const pb::Abort& abort, Time now, ControlActions* out);
  void OnPulse(Peer from, const pb::Pulse& pulse, Time now, ControlActions* out);
  void OnHeartbeat(Peer from, const pb::Heartbeat& beat, Time now, ControlActions* out);
  void OnRound(Peer from, const Message& message, Time now, ControlActions* out);
  void OnStateWant(Peer from, const Message& message, Time now, ControlActions* out);
  void OnStatePiece(Peer from, const Message& message, ControlActions* out);
  void OnBye(Peer from, const pb::Bye& bye, Time now, ControlActions* out);
  void OnFailure(Peer from, const pb::Bye& bye, Time now, ControlActions* out);
  void OnStopFrom(const std::string& who, uint32_t code, Time now, ControlActions* out);
  // Going back, and where to; see recovery.h.
  bool CanGoBack() const {
    return options_.begins_from_shards || options_.resumes || begin_.from.has_value();
  }
  void GoBack(const std::string& why, Time now, ControlActions* out);
  // No live worker holds the state of the job: it goes back where it can, or ends.
  void LoseState(const std::string& what, Code code, Time now, ControlActions* out);
  void TellToGoBack(Worker* worker, ControlActions* out);
  // Whether those who gathered have to agree on where they begin.
  bool NeedsBegin() const;
  // Whether all that gathered may begin, and `begin_` says where; sees to it if not.
  bool MayBegin(Time now, ControlActions* out);
  // Whether it is a run that was under way; which then goes back.
  bool HasBegun();
  // Of workers that were ever admitted: whether there are any, who are told to come anew then.
  bool CallAnew(Time now, ControlActions* out);
  // What all daemons that are here have on their disks; `own` becomes this one's.
  std::vector<Offer> Offers(pb::Hello* own) const;
  // Nobody has begun, and there is no checkpoint to go on from. False: it ends, since some are
  // there.
  bool MayBeginAnew(const std::vector<Offer>& offers, Time now, ControlActions* out);
  // Whether all shards that keep something have said what; asks them if not.
  bool ShardsHaveOffered(Time now, ControlActions* out);
  // One comes back to a job that runs, without what only its checkpoints have.
  bool TakesAllBack(const pb::Hello& hello) const;
  void SayWhereFrom(ControlActions* out) const;
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

  ControlOptions options_;
  RoundLane lane_;
  Roster roster_;
  Stragglers stragglers_;
  bool gathered_ = false;
  bool going_back_ = false;  // gathering what had begun
  bool called_ = false;      // ... and everybody who was there has been told to come
  bool asking_ = false;      // ... and shards are asked what they have
  Time asked_at_{};
  Begin begin_;
  uint64_t beginning_ = 0;
  uint64_t reached_ = 0;  // round before going back
  Farewell farewell_;
  Code stop_code_ = Code::kOk;  // 130 or 143 once asked to stop
  Time started_at_{}, pulse_at_{};
};

}  // namespace tern::protocol
