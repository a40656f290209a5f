// How this machine reaches the server shards of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "setup/setup.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/members.h"

namespace tern::tools {

// The way of packets to an address, as the kernel's tables have it; nothing is sent.
struct Route {
  std::string interface;              // "eth0"; empty: the kernel does not say
  uint32_t mtu = 0;                   // bytes of the largest packet; 0: not known
  std::optional<uint32_t> rate_mbit;  // of the interface; virtual ones have none
};
// `address` is numeric. kAddress if there is no route.
Result<Route> FindRoute(const std::string& address);

// What a connection to a server's port shows, before anything is sent.
struct Answer {
  enum Kind {
    kServer,   // a ZeroMQ socket, as servers have
    kOther,    // something else listens
    kNobody,   // the host refuses: it is up, and nothing listens at this port
    kSilent,   // no answer in time
    kUnknown,  // another error, in `reason`
  };
  Kind kind = kUnknown;
  double round_trip_s = 0;  // unless kSilent or kUnknown
  std::string reason;
};
// Connects to a numeric address, and waits up to `timeout_s` for the connection and as long for the
// first bytes.
Answer AskServer(const std::string& address, uint16_t port, double timeout_s);

// `needed_mbit`: what the workers here send or receive through this link at full speed, whichever
// is more; nullopt: not known.
Finding JudgeRoute(const std::string& subject, const Route& route,
                   std::optional<double> needed_mbit);
// `to`: host and port, for messages.
Finding JudgeAnswer(const std::string& subject, const std::string& to, const Answer& answer);

// Findings for each server shard: whether its host resolves and, for those on other machines, the
// route, and who answers. `step_s`: as for JudgeDiskSpeed.
Findings CheckLinks(const setup::Setup& setup, const Members& members,
                    std::optional<double> step_s);

}  // namespace tern::tools
