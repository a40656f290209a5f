// What a session asks its caller to do, and the helpers that build it.
#pragma once

#include <cstdint>
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
    kConnect,   // open a new connection for `lane` (closing the old one): to `port`; 0: to the
                // shard's address
    kSend,      // send `message` on `lane`'s connection; it may be lost
    kReady,     // the first step after `applied` may begin; `stop_after`: the job's last round, if
                // that is decided
    kDeliver,   // an answer
    kSnapshot,  // call OnSnapshot() with the state after `applied`, copied between two rounds
    kInstall,   // install `state`, the State after round `applied`, then call OnInstalled()
    kResume,    // load `checkpoint` from this worker's disk, then call OnInstalled()
    kGoBack,    // drop everything after round `applied`, pull the parameters of that round
                // (Contribute, a Pull), then call OnInstalled()
    kEnded,     // `status`; no further action follows
    kLog,       // log `text`
  };
  Type type = Type::kLog;
  LaneRef lane;
  uint32_t port = 0;
  Message message;
  Exchange::Delivery delivery;
  Bytes state;
  uint64_t applied = 0;
  uint64_t stop_after = 0;
  uint64_t run = 0;  // kReady: the job's run, which checkpoints carry
  pb::Checkpoint checkpoint;
  Status status;
  std::string text;
};
using SessionActions = std::vector<SessionAction>;

inline SessionAction Action(SessionAction::Type type, LaneRef lane = {}) {
  SessionAction action;
  action.type = type;
  action.lane = lane;
  return action;
}

inline SessionAction SendOn(LaneRef lane, Message message) {
  SessionAction action = Action(SessionAction::Type::kSend, lane);
  action.message = std::move(message);
  return action;
}

inline void Log(std::string text, SessionActions* out) {
  out->push_back(Action(SessionAction::Type::kLog));
  out->back().text = std::move(text);
}

}  // namespace tern::protocol
