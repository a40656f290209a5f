// What a session asks its caller to do, and what it builds that with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/protocol/exchange.h"
#include "common/protocol/message.h"

namespace tern::protocol {

struct SessionAction {
  enum class Type {
    kConnect,   // open a new connection for `lane` (closing the one before): to `port`, or 0: the
                // shard's address
    kSend,      // `message` on `lane`'s connection; may be lost
    kReady,     // the first step may begin, after `applied`; `stop_after`: the job's last round if
                // that is decided
    kDeliver,   // an answer
    kSnapshot,  // give OnSnapshot() the state after `applied`, copied between two rounds
    kInstall,   // `state` is the State after round `applied`
    kResume,    // `checkpoint`: load it from this worker's disk, OnInstalled()
    kGoBack,    // drop all that came after round `applied`, pull the parameters as they were then
                // (Contribute, pull_only), OnInstalled()
    kEnded,     // `status`; nothing more will come
    kLog,       // `text`
  };
  Type type = Type::kLog;
  LaneRef lane;
  uint32_t port = 0;
  Message message;
  Exchange::Delivery delivery;
  Bytes state;
  uint64_t applied = 0;
  uint64_t stop_after = 0;
  uint64_t run = 0;  // kReady: of the job, as checkpoints carry it
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
