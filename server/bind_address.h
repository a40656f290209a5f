// Where a shard binds its sockets.
#pragma once

#include <cstdint>

#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/net/address.h"
#include "setup/setup.h"

namespace tern::server {

// The shard's bind_host, or else the host of its address, with the control socket's port. A name
// becomes its first IP address, and is waited for: where machines start together, a name server may
// know it later. kAddress if it does not resolve within faults.start_timeout_s, with what the
// resolver said; the status of `signals` if one of them comes.
Result<net::Address> AwaitBindAddress(const setup::Setup& setup, uint32_t shard,
                                      StopSignals& signals);

}  // namespace tern::server
