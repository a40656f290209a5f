// The first moments of a shard in a job whose workers are programs of the user's (train.compute:
// client or module): it cannot plan the exchange before one has said which tensors there are.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/signals.h"
#include "common/base/status.h"
#include "proto/net.pb.h"
#include "setup/setup.h"

namespace tern::server {

// Binds the shard's control socket, waits for the first hello of a worker of this job, and returns
// the table in its payload. The socket is closed then: the worker repeats its hello until the
// Server has bound the same port. Refuses workers of another job, tables of which the shard would
// have to keep more than `room` bytes (nullopt: nobody knows how many there are), and tables that
// the file of the job's model.weights does not fit. kPeerLost if no worker comes within
// faults.start_timeout_s; kAddress if the port cannot be bound; the status of `signals` after a
// stop signal.
Result<pb::TensorTable> AwaitTensors(const setup::Setup& setup, uint32_t shard,
                                     std::optional<uint64_t> room, StopSignals& signals);

}  // namespace tern::server
