#include "server/bind_address.h"

#include <chrono>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/config/address.h"
#include "common/net/lookup.h"
#include "common/net/poller.h"
#include "common/protocol/members/control.h"

namespace tern::server {

Result<net::Address> AwaitBindAddress(const setup::Setup& setup, uint32_t shard,
                                      StopSignals& signals) {
  const pb::Server& keys = setup.job.servers(static_cast<int>(shard));
  Result<net::Address> address = net::ParseAddress(keys.address());
  if (!address.ok()) return address;
  if (keys.has_bind_host()) address->host = keys.bind_host();
  if (address->host == "*") return address;
  net::Lookup lookup(address->host);
  net::Poller poller;
  poller.AddFd(signals.fd());
  bool is_logged = false;
  const Time begin = Now();
  while (lookup.Poll(Now()).empty()) {
    const Time waited = Now() - begin;
    if (waited > setup.timings.start_timeout && !lookup.failure().empty()) {
      return Status(Code::kAddress,
                    Cat("cannot bind to ", net::ToString(*address), ": ", lookup.failure(),
                        " (it was waited for, for ", protocol::SecondsText(waited), ")"));
    }
    if (!lookup.failure().empty() && !is_logged)
      LOG(WARNING) << "cannot bind yet: " << lookup.failure() << "; trying again";
    is_logged = is_logged || !lookup.failure().empty();
    TERN_RETURN_IF_ERROR(poller.Wait(std::chrono::milliseconds(20)));
    if (signals.TakeSignal() != 0) return signals.status();
  }
  if (is_logged) LOG(INFO) << "the host " << address->host << " resolves now";
  const std::string bound = lookup.Poll(Now()).front();
  const std::string warning = LoopbackWarning(address->host, bound);
  if (!warning.empty()) LOG(WARNING) << warning;
  address->host = bound;  // libzmq binds to no names
  return address;
}

std::string LoopbackWarning(const std::string& host, const std::string& bound) {
  if (!config::IsLoopback(bound)) return "";
  const std::optional<std::string> name = config::ParseHost(host);
  if (name.has_value() && config::IsLoopback(*name)) return "";
  return Cat("the host \"", Printable(host), "\" resolves to ", bound,
             " on this machine, a loopback address, where daemons on other hosts cannot reach this "
             "shard; change its line in /etc/hosts to an address of the network, or set bind_host "
             "of the shard to one");
}

}  // namespace tern::server
