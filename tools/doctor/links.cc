#include "tools/doctor/links.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>

#include "common/algorithm/facts.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/net/address.h"

namespace tern::tools {
namespace {

constexpr double kAnswerSeconds = 3;  // As long as a worker waits for a connection.
constexpr uint32_t kUsualMtu = 1500;
// A rate above this share of the interface's leaves too little for headers and other traffic.
constexpr double kUsableShare = 0.9;

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList NumericAddress(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  if (getaddrinfo(address.c_str(), Cat(port).c_str(), &hints, &first) != 0) first = nullptr;
  return AddressList(first, &freeaddrinfo);
}

// The address without its port, as bytes that can be compared.
std::string HostBytes(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return {reinterpret_cast<const char*>(&v4.sin_addr), sizeof v4.sin_addr};
  }
  if (address->sa_family != AF_INET6) return "";
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  return {reinterpret_cast<const char*>(&v6.sin6_addr), sizeof v6.sin6_addr};
}

std::string InterfaceOf(const std::string& host_bytes) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, &freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && HostBytes(entry->ifa_addr) == host_bytes)
      return entry->ifa_name;
  return "";
}

// Waits until the socket can be read or written (`event`), or has an error.
bool WaitFor(int fd, short event, double seconds) {
  pollfd entry{fd, event, 0};
  return poll(&entry, 1, static_cast<int>(seconds * 1e3)) > 0;
}

// Of the workers here, to one shard or from it, in a step; whichever direction has more.
uint64_t BytesOfLink(const setup::Setup& setup, const Members& members, uint32_t shard) {
  uint64_t push_bytes = 0, sum_bytes = 0;
  for (const protocol::Bucket& bucket : setup.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      if (chunk.shard != shard) continue;
      push_bytes += chunk.max_push_bytes;
      sum_bytes += chunk.max_sum_bytes;
    }
  }
  const uint64_t parts = std::max(1u, algorithm::FactsOf(setup.job).num_parts);
  return members.workers.size() * std::max(push_bytes, sum_bytes) / parts;
}

}  // namespace

Result<Route> FindRoute(const std::string& address) {
  const AddressList target = NumericAddress(address, 9);  // The port has no meaning here.
  const auto error = [&](const std::string& reason) {
    return Status(Code::kAddress, Cat("no route to ", address, ": ", reason));
  };
  if (target == nullptr) return error("not a numeric address");
  // Connecting a datagram socket sends nothing; it chooses the route.
  const File socket_file(socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket_file.fd() < 0 || connect(socket_file.fd(), target->ai_addr, target->ai_addrlen) != 0)
    return error(std::strerror(errno));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  Route route;
  if (getsockname(socket_file.fd(), reinterpret_cast<sockaddr*>(&own), &size) == 0)
    route.interface = InterfaceOf(HostBytes(reinterpret_cast<const sockaddr*>(&own)));
  const bool is_v4 = target->ai_family == AF_INET;
  int mtu = 0;
  socklen_t mtu_size = sizeof mtu;
  if (getsockopt(socket_file.fd(), is_v4 ? IPPROTO_IP : IPPROTO_IPV6, is_v4 ? IP_MTU : IPV6_MTU,
                 &mtu, &mtu_size) == 0 &&
      mtu > 0)
    route.mtu = static_cast<uint32_t>(mtu);
  int64_t rate_mbit = 0;
  if (!route.interface.empty() &&
      std::ifstream(Cat("/sys/class/net/", route.interface, "/speed")) >> rate_mbit &&
      rate_mbit > 0)
    route.rate_mbit = static_cast<uint32_t>(rate_mbit);
  return route;
}

Answer AskServer(const std::string& address, uint16_t port, double timeout_s) {
  const AddressList target = NumericAddress(address, port);
  if (target == nullptr) return {Answer::kUnknown, 0, "not a numeric address"};
  const File file(socket(target->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const Time begin = Now();
  int error = 0;
  if (file.fd() < 0 || connect(file.fd(), target->ai_addr, target->ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    if (!WaitFor(file.fd(), POLLOUT, timeout_s)) return {Answer::kSilent, 0, ""};
    socklen_t size = sizeof error;
    getsockopt(file.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  const double round_trip_s = Seconds(Now() - begin);
  if (error == ECONNREFUSED) return {Answer::kNobody, round_trip_s, ""};
  if (error == ETIMEDOUT) return {Answer::kSilent, 0, ""};
  if (error != 0) return {Answer::kUnknown, 0, std::strerror(error)};
  // A ZeroMQ socket speaks first: ZMTP's signature, ff and 8 bytes more, then 7f.
  std::array<uint8_t, 10> signature{};
  const bool speaks = WaitFor(file.fd(), POLLIN, timeout_s) &&
                      recv(file.fd(), signature.data(), signature.size(), 0) ==
                          static_cast<ssize_t>(signature.size()) &&
                      signature.front() == 0xff && signature.back() == 0x7f;
  return {speaks ? Answer::kServer : Answer::kOther, round_trip_s, ""};
}

Finding JudgeRoute(const std::string& subject, const Route& route,
                   std::optional<double> needed_mbit) {
  const std::string needed =
      needed_mbit ? Cat("; the workers here need up to ", *needed_mbit, " Mbit/s for full speed")
                  : "";
  const std::string rate =
      route.rate_mbit ? Cat(", ", *route.rate_mbit, " Mbit/s") : ", its rate is not known";
  const std::string seen =
      Cat(route.interface.empty() ? std::string("an unknown interface") : route.interface, ", MTU ",
          route.mtu == 0 ? std::string("unknown") : Cat(route.mtu), rate);
  if (route.mtu != 0 && route.mtu < kUsualMtu) {
    return Warning(subject, Cat("saw ", seen, ", expected an MTU of ", kUsualMtu,
                                " or more; small packets cost time, and if other hosts of this "
                                "network send larger ones, connections may hang: compare the MTU "
                                "of all hosts (ip link)"));
  }
  if (route.rate_mbit && needed_mbit && *needed_mbit > kUsableShare * *route.rate_mbit) {
    return Warning(subject, Cat("saw ", seen, ", expected ", *needed_mbit,
                                " Mbit/s for the workers here at full speed; use a codec with "
                                "fewer bits, or more shards (tern forecast compares them)"));
  }
  return Good(subject, seen + needed);
}

Finding JudgeAnswer(const std::string& subject, const std::string& to, const Answer& answer) {
  const std::string round_trip = "the round trip took " + SecondsText(answer.round_trip_s);
  switch (answer.kind) {
    case Answer::kServer:
      return Good(subject, Cat("a server answers at ", to, "; ", round_trip,
                               "; the link's rate is not measured"));
    case Answer::kNobody:
      return Good(subject, Cat("the host of ", to, " is up, and no server runs there yet; ",
                               round_trip, "; the link's rate is not measured"));
    case Answer::kOther:
      return Bad(Code::kAddress, subject,
                 Cat("saw that the program at ", to,
                     " is no server of Tern, expected one or nobody; check servers[].address, and "
                     "what listens there"));
    case Answer::kSilent:
      return Bad(Code::kAddress, subject,
                 Cat("saw no answer from ", to, ", expected a connection or a refusal within ",
                     kAnswerSeconds,
                     " s; start that host, check servers[].address, and let "
                     "firewalls admit the port"));
    case Answer::kUnknown:
      break;
  }
  return Bad(Code::kAddress, subject,
             Cat("saw that ", to, " cannot be reached (", answer.reason,
                 "), expected a connection or a refusal; check servers[].address and the route to "
                 "that host"));
}

Findings CheckLinks(const setup::Setup& setup, const Members& members,
                    std::optional<double> step_s) {
  Findings findings;
  for (int s = 0; s < setup.job.servers_size(); ++s) {
    const auto shard = static_cast<uint32_t>(s);
    const Result<net::Address> address = net::ParseAddress(setup.job.servers(s).address());
    if (!address.ok()) continue;  // Cannot happen: the job is valid.
    const Result<std::vector<std::string>> numbers = net::Resolve(address->host);
    const std::string subject = Cat("host of server ", s);
    if (!numbers.ok()) {
      findings.push_back(Bad(Code::kAddress, subject, numbers.status().message()));
      continue;
    }
    const bool is_here = std::binary_search(members.servers.begin(), members.servers.end(), shard);
    const std::string place = is_here ? "this machine" : "another machine, " + numbers->front();
    findings.push_back(Good(subject, Cat(address->host, " is ", place)));
    if (is_here) continue;
    const Result<Route> route = FindRoute(numbers->front());
    const std::string link = Cat("link to server ", s);
    if (!route.ok()) {
      findings.push_back(Bad(Code::kAddress, link,
                             Cat("saw ", route.status().message(),
                                 ", expected one; check the interfaces of this machine (ip addr, "
                                 "ip route)")));
      continue;
    }
    std::optional<double> needed_mbit;
    if (step_s) {
      const double bits = 8 * static_cast<double>(BytesOfLink(setup, members, shard));
      const auto period = static_cast<double>(algorithm::FactsOf(setup.job).period);
      needed_mbit = std::ceil(bits / (*step_s * period) / 1e6);
    }
    findings.push_back(JudgeRoute(link, *route, needed_mbit));
    findings.push_back(JudgeAnswer(Cat("server ", s), setup.job.servers(s).address(),
                                   AskServer(numbers->front(), address->port, kAnswerSeconds)));
  }
  return findings;
}

}  // namespace tern::tools
