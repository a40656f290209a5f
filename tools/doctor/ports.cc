#include "tools/doctor/ports.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/base/text.h"
#include "common/net/address.h"
#include "common/net/tcp_listener.h"
#include "setup/metrics_routes.h"

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
  Findings findings;
  const pb::Metrics& metrics = job.metrics();
  const auto check_metrics = [&](const std::string& daemon, uint16_t port) {
    if (port != 0)
      findings.push_back(CheckPort(Cat("metrics port of ", daemon), metrics.host(), port));
  };
  for (const uint32_t s : members.servers) {
    const pb::Server& server = job.servers(static_cast<int>(s));
    const Result<net::Address> address = net::ParseAddress(server.address());
    if (!address.ok()) continue;  // Cannot happen: the job is valid.
    const std::string host = server.has_bind_host() ? server.bind_host() : address->host;
    findings.push_back(CheckPort(Cat("port of server ", s), host, address->port));
    for (const uint32_t port : server.data_ports())
      findings.push_back(
          CheckPort(Cat("data port of server ", s), host, static_cast<uint16_t>(port)));
    check_metrics(Cat("server ", s), setup::ServerMetricsPort(metrics, s));
  }
  for (const uint32_t rank : members.workers)
    check_metrics(Cat("worker ", rank), setup::WorkerMetricsPort(metrics, rank));
  return findings;
}

}  // namespace tern::tools
