// The control plane of a server shard: who is a member, and the lane of scalers and figures. Shard
// 0's (Coordinator) decides; the others' (Follower) follow it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/algorithm/elasticity.h"
#include "common/base/status.h"
#include "common/protocol/message.h"
#include "common/protocol/round_lane.h"
#include "common/protocol/session.h"

namespace tern::protocol {

using algorithm::Elasticity;
using algorithm::OnLoss;

struct ControlAction {
  enum class Type {
    kSend,           // `send`
    kConnectShard0,  // followers: open a new connection to shard 0
    kSendShard0,     // followers: `send.message` on it
    kMembers,        // `members`, for every data lane of this shard
    kStop,           // OnStop() for every data lane of this shard
    kEnded,          // `status`; nothing more will come
    kLog,            // `text`
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
  pb::Hello expected;                // job, digests: what every peer must have
  Timings timings;
  Elasticity elasticity;
  uint32_t window = 1;             // of the control lane, as RoundLane's
  bool workers_hold_state = true;  // false: whoever comes asks the data lanes for all that it
                                   // needs, and checkpoints are what they have
  // Servers hold the parameters and there are rounds: those of `run` that all lanes of this shard
  // can go back to, rising. Empty: there is no going back (roll_back.h).
  std::function<std::vector<uint64_t>(uint64_t run)> snapshots;
  // A job whose state nobody holds goes on from the newest checkpoint that all have (resume.h).
  bool resumes = false;
  // By shard, whether it keeps something from round to round, and has to offer a checkpoint too.
  std::vector<bool> keeps;
  // Where this one does: what it has on its disk now.
  std::function<std::vector<pb::Checkpoint>()> checkpoints;
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
  // A signal asks for the end: `code` is 130 or 143.
  virtual void OnStop(Code code, Time now, ControlActions* out) = 0;
  virtual void OnMessageFromShard0(const Message&, Time, ControlActions*) {}
  // The connection to shard 0 was lost, as far as its socket knows (silence tells as well, but
  // later).
  virtual void OnShard0Disconnected() {}
  virtual const RoundLane& lane() const = 0;
};

// Ok, or kMismatch naming both sides' values.
Status CheckHello(const pb::Hello& hello, const pb::Hello& expected);

// What both have in common of the options of their lanes.
RoundLane::Options ControlLaneOptions(const ControlOptions& options);

// Helpers that both build their actions with.
Message Refusal(Code code, std::string sentence, pb::Refuse::Then then);
void EmitSend(Peer to, Message message, ControlActions* out);
// The answer to a member's heartbeat, at once.
void EmitEcho(Peer to, const pb::Heartbeat& beat, ControlActions* out);
void EmitSends(Sends sends, ControlActions* out);
void EmitLog(std::string text, ControlActions* out);
void EmitMembers(const pb::Members& members, ControlActions* out);
void EmitEnded(Status status, ControlActions* out);
std::string SecondsText(Time time);  // "3.0 s"

}  // namespace tern::protocol
