#include "tools/doctor/tcp.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "common/base/text.h"
#include "common/net/address.h"

namespace tern::tools {
namespace {

// 100 Mbit/s with a round trip of 200 ms has 2.5 MB on its way, and the kernel counts more for a
// packet than its bytes. This is Linux's own default for sending.
constexpr uint64_t kBufferBytes = 4 << 20;

// The last number of a setting: tcp_wmem and tcp_rmem have the least, the first and the largest
// size of a buffer. 0 if there is none.
uint64_t LastNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t last = 0;
  for (uint64_t number = 0; file >> number;) last = number;
  return last;
}

}  // namespace

TcpSettings ReadTcpSettings(const std::string& root) {
  const std::string folder = root + "/proc/sys/net/ipv4/";
  TcpSettings settings;
  settings.slow_start_after_idle = LastNumber(folder + "tcp_slow_start_after_idle") != 0;
  settings.send_bytes = LastNumber(folder + "tcp_wmem");
  settings.receive_bytes = LastNumber(folder + "tcp_rmem");
  return settings;
}

Finding JudgeTcp(const TcpSettings& settings) {
  std::vector<std::string> seen, cures;
  const auto add = [&](const std::string& name, const std::string& value, const std::string& cure) {
    seen.push_back(Cat("net.ipv4.", name, " = ", value));
    cures.push_back(Cat("sysctl -w net.ipv4.", name, "=", cure));
  };
  if (settings.slow_start_after_idle) add("tcp_slow_start_after_idle", "1", "0");
  const auto add_buffer = [&](const std::string& name, uint64_t bytes) {
    if (bytes != 0 && bytes < kBufferBytes)
      add(name, Cat("... ", bytes), Cat("'4096 131072 ", kBufferBytes, "'"));
  };
  add_buffer("tcp_wmem", settings.send_bytes);
  add_buffer("tcp_rmem", settings.receive_bytes);
  const std::string subject = "TCP";
  if (seen.empty())
    return Good(subject, "connections keep their rate between rounds, and buffers are large");
  return Warning(subject,
                 Cat("saw ", Join(seen), ", expected 0 and buffers of ", HumanBytes(kBufferBytes),
                     "; where a round trip to a server takes 10 ms or more, each round "
                     "begins slowly: ",
                     Join(cures), " on all hosts"));
}

Findings CheckTcp(const pb::Job& job) {
  const auto is_far = [](const pb::Server& server) {
    const Result<net::Address> address = net::ParseAddress(server.address());
    return address.ok() && !net::IsLoopback(address->host);
  };
  if (std::none_of(job.servers().begin(), job.servers().end(), is_far)) return {};
  return {JudgeTcp(ReadTcpSettings())};
}

}  // namespace tern::tools
