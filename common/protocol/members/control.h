// The control plane of a server shard: the state machine behind its control socket. It handles
// membership (which workers take part in the job) and the control lane, which reduces scalers (the
// codecs' scale factors) and figures (the workers' metrics) over the workers. A data lane, the
// state machine behind one of the shard's other sockets, handles pushes. Shard 0 runs a
// Coordinator, which decides the membership; every other shard runs a Follower, which takes the
// membership from shard 0. One thread calls the state machine; its owner does the input and output,
// and passes in the time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/algorithm/elasticity.h"
#include "common/base/status.h"
#include "common/protocol/members/recovery.h"
#include "common/protocol/members/timings.h"
#include "common/protocol/rounds/message.h"
#include "common/protocol/rounds/round_lane.h"

namespace tern::protocol {

using algorithm::Elasticity;
using algorithm::OnLoss;

struct ControlAction {
  enum class Type {
    kSend,           // send the message `send`
    kConnectShard0,  // followers only: open a new connection to shard 0
    kSendShard0,     // followers only: send `send.message` on that connection
    kMembers,        // pass `members` to every data lane of this shard
    kStop,           // call OnStop() of every data lane of this shard
    kCheckpoint,     // shard 0 only: call OnCheckpointRequest() of every data lane of this shard
    kEnded,          // the job has ended for this shard with `status`; no further action follows
    kLog,            // log `text`
  };
  Type type = Type::kLog;
  Send send;
  pb::Members members;
  Status status;
  std::string text;
  bool is_normal = false;  // kLog: `text` tells of a normal event, which is no reason for a warning
  // With kEnded: the step as whose checkpoint the data lanes write their last state (ending.h); 0:
  // they write none.
  uint64_t last_step = 0;
};
using ControlActions = std::vector<ControlAction>;

// How often daemons log for whom they wait, so that a job that stands says why.
inline constexpr Time kAwaitedLogInterval = std::chrono::seconds(4);

struct ControlOptions {
  uint32_t shard = 0;    // the number of this shard
  uint32_t shards = 1;   // how many shards the job has
  uint32_t workers = 1;  // how many workers the job has
  // The job's length in steps; 0: only the workers know it, from the size of their data.
  uint64_t steps = 0;
  uint64_t incarnation = 0;          // a random number that identifies this process
  std::vector<uint32_t> data_ports;  // the ports of this shard's data lanes, in order
  pb::Hello expected_hello;          // the job name and digests that every peer's hello must have
  std::vector<std::string> keys;  // the names of the job's keys, in the order of Hello.key_digests
  Timings timings;
  Elasticity elasticity;
  uint32_t window = 1;  // a worker may contribute to this many rounds after its newest applied one
  // Whether workers hold the state of the job, so that a newcomer gets it from another worker.
  // False: newcomers pull it from the data lanes, and the shards' checkpoints have it.
  bool workers_hold_state = true;
  // Whether servers hold the parameters and the job has rounds. If such a job loses its state, it
  // continues from the newest state that all shards have; that may be the initial parameters
  // (recovery.h).
  bool begins_from_shards = false;
  // Whether all daemons write checkpoints, so that a running job whose state is lost may continue
  // from a checkpoint. A job that starts looks for checkpoints even if this is false.
  bool can_resume = false;
  // By shard: whether the shard keeps state from round to round. Such a shard must offer its
  // checkpoints before the job can continue from a checkpoint.
  std::vector<bool> shard_keeps_state;
  // Returns the checkpoints that are on this shard's disk now. Set only if this shard keeps state.
  std::function<SavedCheckpoints()> find_saved_checkpoints;
  // On shard 0 of a job without rounds: returns the step that the data lanes of this shard have
  // reached by now, rounded up; 0: they have no state of the run.
  std::function<uint64_t()> find_last_step;
  // On shard 0 of a job with rounds: returns the step of the last checkpoint of workers that have
  // done `steps` steps. Null: the job has no rounds.
  std::function<uint64_t(uint64_t steps)> last_checkpoint_step;
  // How many checkpoints this shard could not write.
  uint64_t NumFailedCheckpoints() const {
    return find_saved_checkpoints ? find_saved_checkpoints().num_failed : 0;
  }
  bool ShardKeepsState(uint32_t s) const {
    return s < shard_keeps_state.size() && shard_keeps_state[s];
  }
  Safeguards safeguards;  // rules of the protocol, each of which a test may switch off
};

class Control {
 public:
  virtual ~Control() = default;
  virtual void Start(Time now, ControlActions* out) = 0;
  virtual void OnMessage(Peer from, const Message& message, Time now, ControlActions* out) = 0;
  // Call at least every `Timings::heartbeat` / 2.
  virtual void OnTimer(Time now, ControlActions* out) = 0;
  // The process received a stop signal: asks for the orderly end of the job. `code`: kInterrupted
  // (130) or kTerminated (143).
  virtual void OnStop(Code code, Time now, ControlActions* out) = 0;
  // The process was asked for a checkpoint (SIGUSR1): asks shard 0 for one of all daemons.
  virtual void OnCheckpointRequest(ControlActions* out) = 0;
  // Shard 0 only: a message to this peer could not be sent, because its connection is closed.
  virtual void OnUnreachable(Peer, Time) {}
  // Shard 0 only: this peer's key is not allowed any more. Its messages do not arrive any more.
  virtual void OnRevoked(Peer, Time, ControlActions*) {}
  // Reports that this shard cannot take part any more. The shard ends with the error `status`, and
  // shard 0 ends the job with that error. May be called repeatedly.
  virtual void OnFailure(const Status& status, Time now, ControlActions* out) = 0;
  // Followers only: handles a message from the connection that kConnectShard0 opened.
  virtual void OnMessageFromShard0(const Message&, Time, ControlActions*) {}
  // Followers only: the socket reports that the connection to shard 0 is lost. Without this call
  // the Follower would notice the loss later, by shard 0's silence.
  virtual void OnShard0Disconnected() {}
  // Followers only: why the socket of shard 0 seems to refuse this shard, as the rest of a sentence
  // that begins with "server shard 0"; empty if it does not.
  virtual void SetObstacleToShard0(Status) {}
  // Whether this connection belongs to a worker or shard of the job, as far as this shard knows.
  virtual bool IsPeerOfJob(Peer peer) const = 0;
  virtual const RoundLane& lane() const = 0;
  // Followers only: for whom this shard waits before it takes part; empty if for nobody.
  virtual std::string WaitingFor() const { return ""; }
};

// The largest round, step count or epoch in a message. It is so low that additions to these numbers
// cannot overflow.
inline constexpr uint64_t kMaxCount = uint64_t{1} << 62;

// Ok if the hello names the expected job and digests. Else kMismatch, also if a field has a value
// that no Tern daemon sends; kNotAllowed if another launch than the server's started the sender.
// The error goes to the sender, who may be a stranger. Therefore it does not have the server's
// values; it names the keys that differ (`keys`: the names of all) only if they are few. *for_log,
// if not null, gets a sentence with both sides' values for the server's own log.
Status CheckHello(const pb::Hello& hello, const pb::Hello& expected,
                  const std::vector<std::string>& keys = {}, std::string* for_log = nullptr);

// CheckHello for those whom only workers greet; kNotAllowed if a server shard says hello. What a
// connection may say depends on the role that its hello claims (server/door.h), so a shard's key
// must not take a worker's place.
Status CheckWorkersHello(const pb::Hello& hello, const pb::Hello& expected,
                         const std::vector<std::string>& keys = {});

// How the data of the worker that says this hello differ from those of another, and what to do; ""
// if they have the same digest, or one has none.
std::string DataDifference(const pb::Hello& hello, const pb::Hello& other);

// The options of the control lane that are the same in a Coordinator and in a Follower.
RoundLane::Options ControlLaneOptions(const ControlOptions& options);

// Helpers of Coordinator and Follower that build messages and append actions to *out.
// Tells this incarnation of a worker to say hello as a new one; `why` goes to the worker's log.
Message MakeGoBack(uint64_t incarnation, std::string why);
void EmitSend(Peer to, Message message, ControlActions* out);
// Answers a member's heartbeat with an Echo, from which the member measures the round-trip time.
void EmitEcho(Peer to, const pb::Heartbeat& beat, ControlActions* out);
void EmitSends(Sends sends, ControlActions* out);
void EmitLog(std::string text, ControlActions* out);
// Like EmitLog, for a normal event.
void EmitNormalLog(std::string text, ControlActions* out);
void EmitMembers(const pb::Members& members, ControlActions* out);
// `last_step`: see ControlAction::last_step.
void EmitEnded(Status status, uint64_t last_step, ControlActions* out);
std::string SecondsText(Time time);  // for example "3.0 s"
// With which error a daemon ends that gets no connection to `server` because of `obstacle`, whose
// message is the rest of a sentence that begins with the server's name: the server refuses this
// daemon (kNotAllowed), or its host does not resolve (kAddress).
Status ObstacleError(const std::string& server, const Status& obstacle, Time waited);
// What such a daemon logs as soon as it knows of the obstacle.
std::string ObstacleForLog(const std::string& server, const Status& obstacle);

}  // namespace tern::protocol
