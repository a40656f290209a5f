// How a server answers messages that are malformed (common/net/frame.h).
#pragma once

#include "common/net/frame.h"
#include "common/protocol/rounds/message.h"

namespace tern::server {

// The answer to the sender. A daemon of another wire version has to leave. Every other daemon has
// sent a valid message that arrived damaged: it has to say hello on a new connection, and to repeat
// there what has no answer. Programs that are not Tern do not understand the answer.
protocol::Message AnswerToMalformed(const net::FrameError& error);

}  // namespace tern::server
