// Helpers that build the session's actions.
#pragma once

#include <string>
#include <utility>

#include "common/protocol/session.h"

namespace tern::protocol {

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
