// What limits the sockets of a job: the largest payloads, and how fast connections send.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/net/pacing.h"
#include "setup/setup.h"

namespace tern::setup {

// The largest payload of a message, in bytes, on a server's socket: the control socket (lane 0) or
// a data socket (lanes 1, 2, ...).
size_t MaxPayloadBytes(const Setup& setup, uint32_t lane);

// How many messages may wait to be sent to one peer of a shard's socket (lanes as above): twice
// what a daemon that does as the protocol says can leave unread at once. More are dropped; who
// misses one asks again. So a peer that asks all the time and reads nothing costs a bounded memory.
int MaxQueuedMessages(const Setup& setup, uint32_t shard, uint32_t lane);

// How a connection of a shard, or of a worker, sends: at most an equal share of servers[].send_mbit
// or workers.send_mbit, and evenly over far links if it sends much in a round.
net::Pacing ServerPacing(const Setup& setup, uint32_t shard);
net::Pacing WorkerPacing(const Setup& setup);

}  // namespace tern::setup
