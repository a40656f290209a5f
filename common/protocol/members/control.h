// The control plane of a server shard: membership, and the lane of scalers and figures. Shard 0's
// (Coordinator) decides membership; the others' (Follower) follow it.
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
    kSend,           // `send`
    kConnectShard0,  // followers: open a new connection to shard 0
    kSendShard0,     // followers: send `send.message` on that connection
    kMembers,        // pass `members` to every data lane of this shard
    kStop,           // call OnStop() of every data lane of this shard
    kEnded,          // `status`; no further action follows
    kLog,            // log `text`
  };
  Type type = Type::kLog;
  Send send;
  pb::Members members;
  Status status;
  std::string text;
};
using ControlActions = std::vector<ControlAction>;

struct ControlOptions {
  uint32_t shard = 0;
  uint32_t shards = 1;
  uint32_t workers = 1;
  uint64_t incarnation = 0;
  std::vector<uint32_t> data_ports;  // of this shard
  pb::Hello expected;                // job, digests: what every peer's hello must match
  Timings timings;
  Elasticity elasticity;
  uint32_t window = 1;             // of the control lane, as in RoundLane
  bool workers_hold_state = true;  // false: newcomers pull all state from the data lanes, and those
                                   // lanes' state is what checkpoints hold
  // Servers hold the parameters and there are rounds: a job that had begun goes on from what all
  // shards have, be it the initial parameters (recovery.h).
  bool begins_from_shards = false;
  // Whether all daemons write checkpoints, so that a running job whose state is lost may resume
  // from one. A job that starts looks for them in any case.
  bool resumes = false;
  // By shard: whether it keeps state from round to round, and so has to offer a checkpoint too.
  std::vector<bool> keeps;
  // If this shard keeps something: what is on its disk now.
  std::function<Saved()> saved;
  bool Keeps(uint32_t s) const { return s < keeps.size() && keeps[s]; }
  Safeguards safeguards;
};

class Control {
 public:
  virtual ~Control() = default;
  virtual void Start(Time now, ControlActions* out) = 0;
  virtual void OnMessage(Peer from, const Message& message, Time now, ControlActions* out) = 0;
  // Call at least every heartbeat / 2.
  virtual void OnTimer(Time now, ControlActions* out) = 0;
  // A signal asks for an orderly end: `code` is 130 or 143.
  virtual void OnStop(Code code, Time now, ControlActions* out) = 0;
  // This shard cannot take part any more: it ends with `status`, and shard 0 ends the job with it.
  // May be said again.
  virtual void OnFailure(const Status& status, Time now, ControlActions* out) = 0;
  virtual void OnMessageFromShard0(const Message&, Time, ControlActions*) {}
  // The socket reports that the connection to shard 0 is lost. (Silence shows it as well, later.)
  virtual void OnShard0Disconnected() {}
  virtual const RoundLane& lane() const = 0;
};

// Ok, or kMismatch with both sides' values. kMismatch also if no daemon of Tern sends such a hello.
Status CheckHello(const pb::Hello& hello, const pb::Hello& expected);

// The lane options that both have in common.
RoundLane::Options ControlLaneOptions(const ControlOptions& options);

// Helpers of both for building actions.
Message Refusal(Code code, std::string sentence, pb::Refuse::Then then);
void EmitSend(Peer to, Message message, ControlActions* out);
// Answers a member's heartbeat, at once.
void EmitEcho(Peer to, const pb::Heartbeat& beat, ControlActions* out);
void EmitSends(Sends sends, ControlActions* out);
void EmitLog(std::string text, ControlActions* out);
void EmitMembers(const pb::Members& members, ControlActions* out);
void EmitEnded(Status status, ControlActions* out);
std::string SecondsText(Time time);  // "3.0 s"

}  // namespace tern::protocol
