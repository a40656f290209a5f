#include "tools/doctor/ports.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "common/base/text.h"
#include "common/net/address.h"
#include "common/net/tcp_listener.h"
#include "setup/metrics_routes.h"
#include "setup/setup.h"

namespace tern::tools {
namespace {

// The inodes of the sockets that listen at `port`, from a table of the kernel: proc(5), net/tcp.
std::vector<std::string> ListeningInodes(const char* table_path, uint16_t port) {
  constexpr const char* kListens = "0A";
  std::vector<std::string> inodes;
  std::ifstream table(table_path);
  std::string line;
  std::getline(table, line);  // The names of the columns.
  while (std::getline(table, line)) {
    std::istringstream row(line);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    row >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >>
        inode;
    const size_t colon = local.rfind(':');
    uint32_t local_port = 0;
    if (colon == std::string::npos || state != kListens) continue;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), local_port, 16);
    if (local_port == port) inodes.push_back(inode);
  }
  return inodes;
}

// Whether the process of this folder of /proc has one of the sockets open.
bool HasSocket(const std::filesystem::path& process, const std::vector<std::string>& sockets) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(process / "fd", error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored_error;
    const std::string target = std::filesystem::read_symlink(entry->path(), ignored_error).string();
    if (std::find(sockets.begin(), sockets.end(), target) != sockets.end()) return true;
  }
  return false;
}

// A port that the job names for a daemon.
struct PortUse {
  std::string subject;  // "port of server 0"
  std::string key;      // that names it
  std::string host;     // to which the daemon binds it
  uint16_t port = 0;
};

// The ports that the job names for its daemons here.
std::vector<PortUse> PortsOf(const pb::Job& job, const Members& members) {
  std::vector<PortUse> uses;
  const pb::Metrics& metrics = job.metrics();
  const auto add_metrics = [&](const std::string& daemon, uint16_t port) {
    if (port != 0)
      uses.push_back({Cat("metrics port of ", daemon), "metrics.port", metrics.host(), port});
  };
  for (const uint32_t s : members.servers) {
    const pb::Server& server = job.servers(static_cast<int>(s));
    const Result<net::Address> address = net::ParseAddress(server.address());
    if (!address.ok()) continue;  // Cannot happen: the job is valid.
    const std::string host = server.has_bind_host() ? server.bind_host() : address->host;
    const std::string key = Cat("servers.", s, ".");
    uses.push_back({Cat("port of server ", s), key + "address", host, address->port});
    for (const uint32_t port : server.data_ports())
      uses.push_back(
          {Cat("data port of server ", s), key + "data_ports", host, static_cast<uint16_t>(port)});
    add_metrics(Cat("server ", s), setup::ServerMetricsPort(metrics, s));
  }
  if (setup::HasForeignTable(job)) return uses;  // Programs of the user's serve no metrics.
  for (const uint32_t rank : members.workers)
    add_metrics(Cat("worker ", rank), setup::WorkerMetricsPort(metrics, rank));
  return uses;
}

// Two uses of one port, of which only the first can bind it.
struct SharedPort {
  const PortUse *first, *second;
};

// Finds them by binding each port that occurs more than once: the same port of two addresses of
// this machine is no fault. One that another program has is not found.
std::vector<SharedPort> SharedPortsOf(const std::vector<PortUse>& uses) {
  std::map<uint16_t, std::vector<const PortUse*>> by_port;
  for (const PortUse& use : uses) by_port[use.port].push_back(&use);
  std::vector<SharedPort> shared_ports;
  for (const auto& [port, users] : by_port) {
    if (users.size() == 1) continue;
    std::map<const PortUse*, std::unique_ptr<net::TcpListener>> held;
    for (const PortUse* const use : users) {
      if (auto listener = net::TcpListener::Listen(use->host, port); listener.ok()) {
        held[use] = std::move(*listener);
        continue;
      }
      for (auto& [holder, listener] : held) {
        listener.reset();
        const bool was_in_the_way = net::TcpListener::Listen(use->host, port).ok();
        if (auto again = net::TcpListener::Listen(holder->host, port); again.ok())
          listener = std::move(*again);
        if (!was_in_the_way) continue;
        shared_ports.push_back({holder, use});
        break;
      }
    }
  }
  return shared_ports;
}

std::string SentenceOf(const SharedPort& shared) {
  const PortUse &first = *shared.first, &second = *shared.second;
  const bool is_of_metrics = second.key == "metrics.port";
  return Cat("saw ", net::ToString({second.host, second.port}), " of ", second.key,
             ", which is also the ", first.subject, " (", first.key,
             "), expected a port of its own; choose another ", second.key,
             is_of_metrics ? ", where server s has port + s and worker r port + 100 + r, without "
                             "metrics.same_port if several daemons are on one host"
                           : "");
}

}  // namespace

std::string HolderOfPort(uint16_t port) {
  std::vector<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"})
    for (const std::string& inode : ListeningInodes(table, port))
      sockets.push_back("socket:[" + inode + "]");
  if (sockets.empty()) return "";
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string pid = entry->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!HasSocket(entry->path(), sockets)) continue;
    std::string name;
    std::getline(std::ifstream(entry->path() / "comm"), name);
    return Cat(Printable(name), " (process ", pid, ")");
  }
  return "";
}

Finding CheckPort(const std::string& subject, const std::string& host, uint16_t port) {
  const std::string address = net::ToString({host, port});
  const auto listener = net::TcpListener::Listen(host, port);
  if (listener.ok()) return Good(subject, address + " is free");
  const std::string holder = HolderOfPort(port);
  if (!holder.empty()) {
    return Bad(Code::kAddress, subject,
               Cat("saw that ", address, " is taken by ", holder,
                   ", expected a free port; end that process if it should not run, or choose "
                   "another port (tern run --free_ports does)"));
  }
  return Bad(Code::kAddress, subject, listener.status().message());
}

Findings CheckPorts(const pb::Job& job, const Members& members) {
  const std::vector<PortUse> uses = PortsOf(job, members);
  const std::vector<SharedPort> shared_ports = SharedPortsOf(uses);
  Findings findings;
  for (const PortUse& use : uses) {
    const auto shared =
        std::find_if(shared_ports.begin(), shared_ports.end(),
                     [&use](const SharedPort& port) { return port.second == &use; });
    findings.push_back(shared == shared_ports.end()
                           ? CheckPort(use.subject, use.host, use.port)
                           : Bad(Code::kBadJob, use.subject, SentenceOf(*shared)));
  }
  return findings;
}

Status CheckPortsDiffer(const pb::Job& job, const Members& members) {
  const std::vector<PortUse> uses = PortsOf(job, members);
  const std::vector<SharedPort> shared_ports = SharedPortsOf(uses);
  if (shared_ports.empty()) return Ok();
  const SharedPort& shared = shared_ports.front();
  return Status(Code::kBadJob, Cat(shared.second->subject, ": ", SentenceOf(shared)));
}

}  // namespace tern::tools
