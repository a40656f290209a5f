// Where a shard binds its sockets.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/net/address.h"
#include "setup/setup.h"

namespace tern::server {

// The shard's bind_host, or else the host of its address, with the control socket's port. A name
// becomes its first IP address, and is waited for: where machines start together, a name server may
// know it later. kAddress if it does not resolve within faults.start_timeout_s, with what the
// resolver said; the status of `signals` if one of them comes. Logs LoopbackWarning.
Result<net::Address> AwaitBindAddress(const setup::Setup& setup, uint32_t shard,
                                      StopSignals& signals);

// What to say of a shard whose `host` of the job has resolved to the address `bound`: a name to
// which /etc/hosts gives a loopback address, as Debian's installer does with the name of a machine,
// is one that peers on other hosts look up elsewhere, and never reach. "" if nothing is wrong.
std::string LoopbackWarning(const std::string& host, const std::string& bound);

}  // namespace tern::server
