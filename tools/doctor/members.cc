#include "tools/doctor/members.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <set>

#include "common/algorithm/ranks.h"
#include "common/base/cpus.h"
#include "common/base/text.h"
#include "common/net/address.h"

namespace tern::tools {
namespace {

std::set<std::string> OwnAddresses() {
  std::set<std::string> addresses;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, &freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(entry->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
        0)
      addresses.insert(text.data());
  }
  return addresses;
}

std::string RanksText(const std::string& role, const std::vector<uint32_t>& ranks) {
  return Cat(role, ranks.size() == 1 ? " " : "s ", CpusText(ranks));
}

}  // namespace

bool IsOfThisMachine(const std::string& host) {
  if (net::IsLoopback(host)) return true;
  const Result<std::vector<std::string>> addresses = net::Resolve(host);
  if (!addresses.ok()) return false;
  const std::set<std::string> own_addresses = OwnAddresses();
  return std::any_of(addresses->begin(), addresses->end(),
                     [&](const std::string& address) { return own_addresses.contains(address); });
}

Members AllMembers(const pb::Job& job) {
  Members members;
  members.servers.resize(static_cast<size_t>(job.servers_size()));
  members.workers.resize(job.workers().count());
  for (std::vector<uint32_t>* ranks : {&members.servers, &members.workers})
    std::iota(ranks->begin(), ranks->end(), 0u);
  return members;
}

Result<Members> FindMembers(const pb::Job& job, const std::string& ranks) {
  Members members;
  bool is_all_here = true;  // Servers on loopback addresses have no workers elsewhere.
  for (int s = 0; s < job.servers_size(); ++s) {
    const Result<net::Address> address = net::ParseAddress(job.servers(s).address());
    if (!address.ok()) return address.status();
    is_all_here = is_all_here && net::IsLoopback(address->host);
    if (IsOfThisMachine(address->host)) members.servers.push_back(static_cast<uint32_t>(s));
  }
  if (!ranks.empty()) {
    const auto workers = ParseCpus(ranks);  // Ranks are written as CPUs are.
    if (!workers || workers->back() >= algorithm::NumRanks(job)) {
      return Status(Code::kUsage,
                    Cat("--workers: saw '", Printable(ranks), "', expected ranks from ", "0 to ",
                        algorithm::NumRanks(job) - 1, ", as 0-3,8"));
    }
    members.workers = *workers;
    return members;
  }
  members.are_workers_known = is_all_here;
  const bool has_all_servers = members.servers.size() == static_cast<size_t>(job.servers_size());
  members.workers.resize(has_all_servers ? job.workers().count() : 1);
  std::iota(members.workers.begin(), members.workers.end(), 0u);
  return members;
}

std::string MembersText(const Members& members) {
  const std::string workers = RanksText("worker", members.workers);
  return members.servers.empty() ? workers : RanksText("server", members.servers) + ", " + workers;
}

}  // namespace tern::tools
