// The actions that a worker's session asks its owner (the worker's net thread) to execute, in
// order, and helpers that build them. A lane is one socket of a server shard, to which the session
// has one connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/protocol/rounds/exchange.h"
#include "common/protocol/rounds/message.h"

namespace tern::protocol {

struct SessionAction {
  enum class Type {
    kConnect,  // close the connection of `lane` and open a new one: to `port` of the shard's host,
               // or to the shard's configured address if `port` is 0
    kSend,     // send `message` on `lane`'s connection; the message may be lost
    kTellLeader,  // send `message`, a push for `lane` or a word about one, to this host's leader; if
                  // that is not possible, call OnLeader(kNone)
    kReady,       // begin the first step after round `applied`. `run`: the number of the job's run;
                  // `stop_after`: the job's last round, or 0 if it is not decided
    kDeliver,     // take `delivery`: the answer to a contribution
    kSnapshot,    // call OnSnapshot() with a copy of the state, made between two rounds
    kInstall,     // install `state`, the state after round `applied`, then call OnInstalled()
    kResume,      // load `checkpoint` from this worker's disk, then call OnInstalled()
    kGoBack,  // discard everything after round `applied`, pull the parameters of that round with
              // Contribute(Pull), then call OnInstalled()
    kEnded,   // the session has ended with `status`; no further action follows
    kLog,     // log `text`
  };
  Type type = Type::kLog;
  LaneRef lane;
  uint32_t port = 0;
  Message message;
  Exchange::Delivery delivery;
  Bytes state;
  uint64_t applied = 0;
  uint64_t stop_after = 0;
  uint64_t checkpoint_after = 0;  // kReady: the newest OfRound.checkpoint_after; 0: none
  uint64_t run = 0;               // kReady: identifies the job's run in checkpoints
  pb::Checkpoint checkpoint;
  std::optional<pb::Checkpoint> others_resume;  // kInstall, kGoBack: Welcome.others_resume
  Status status;
  std::string text;
  bool is_normal = false;  // kLog: `text` tells of a normal event, which is no reason for a warning
};
using SessionActions = std::vector<SessionAction>;

inline SessionAction MakeAction(SessionAction::Type type, LaneRef lane = {}) {
  SessionAction action;
  action.type = type;
  action.lane = lane;
  return action;
}

inline SessionAction MakeSend(LaneRef lane, Message message) {
  SessionAction action = MakeAction(SessionAction::Type::kSend, lane);
  action.message = std::move(message);
  return action;
}

inline void Log(std::string text, SessionActions* out) {
  out->push_back(MakeAction(SessionAction::Type::kLog));
  out->back().text = std::move(text);
}

// Like Log, for a normal event.
inline void LogNormal(std::string text, SessionActions* out) {
  Log(std::move(text), out);
  out->back().is_normal = true;
}

}  // namespace tern::protocol
