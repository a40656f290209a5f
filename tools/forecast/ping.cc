#include "tools/forecast/ping.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "common/base/channel.h"
#include "common/base/clock.h"
#include "common/base/threads.h"
#include "common/net/poller.h"
#include "common/net/socket.h"

namespace tern::tools {

namespace {

// Returns the CPU time of this process, over all its threads.
double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

pb::Envelope MakeSamplePush() {
  pb::Envelope envelope;
  pb::Contribution* push = envelope.mutable_push();
  push->set_bucket(1);
  push->set_chunk(1);
  push->set_rank(1);
  push->set_incarnation(1);
  push->set_epoch(1);
  push->mutable_in_round()->set_round(1000);
  push->mutable_in_round()->set_applied(999);
  return envelope;
}

// Sends every message back, on a thread of its own.
class EchoServer {
 public:
  static Result<std::unique_ptr<EchoServer>> Start(net::Context& context,
                                                   const net::SocketOptions& options) {
    auto socket = net::RouterSocket::Bind(context, "127.0.0.1", 0, options);
    if (!socket.ok()) return socket.status();
    std::unique_ptr<EchoServer> echo_server(new EchoServer(std::move(*socket)));
    echo_server->thread_ =
        Thread("echo", [echo_pointer = echo_server.get()] { echo_pointer->Run(); });
    return echo_server;
  }
  ~EchoServer() {
    is_stopping_ = true;
    thread_.Join();
  }
  uint16_t port() const { return socket_->port(); }

 private:
  explicit EchoServer(std::unique_ptr<net::RouterSocket> socket) : socket_(std::move(socket)) {}
  void Run() {
    net::Poller poller;
    poller.Add(socket_.get());
    while (!is_stopping_) {
      if (!poller.Wait(std::chrono::milliseconds(20)).ok()) return;
      while (auto message = socket_->Receive()) {
        if (message->error.has_value()) continue;
        if (!socket_->Send(message->peer, message->envelope, message->payload).ok()) return;
      }
    }
  }

  const std::unique_ptr<net::RouterSocket> socket_;
  std::atomic<bool> is_stopping_{false};
  Thread thread_;
};

class Pinger {
 public:
  Pinger(net::DealerSocket& socket) : socket_(socket) { poller_.Add(&socket); }

  // Sends `payload` and waits until it has come back.
  Status Ping(const Bytes& payload) {
    const Time deadline = Now() + std::chrono::seconds(5);
    while (!socket_.Send(envelope_, payload).ok()) {
      if (Now() > deadline) return Status(Code::kAddress, "no connection over loopback within 5 s");
      TERN_RETURN_IF_ERROR(poller_.Wait(std::chrono::milliseconds(5)));
    }
    while (!socket_.Receive().has_value()) {
      if (Now() > deadline) return Status(Code::kAddress, "no answer over loopback within 5 s");
      TERN_RETURN_IF_ERROR(poller_.Wait(std::chrono::milliseconds(100)));
    }
    return Ok();
  }

 private:
  net::DealerSocket& socket_;
  net::Poller poller_;
  const pb::Envelope envelope_ = MakeSamplePush();
};

struct PingTimes {
  double median_s = 0;  // Time until the message has come back.
  double cpu_s = 0;     // CPU time of the process per ping.
};

Result<PingTimes> RepeatPing(Pinger& pinger, const Bytes& payload, int count) {
  for (int i = 0; i < count / 8 + 2; ++i) TERN_RETURN_IF_ERROR(pinger.Ping(payload));
  std::vector<double> ping_seconds;
  const double cpu_before_s = ProcessCpuSeconds();
  for (int i = 0; i < count; ++i) {
    const Time begin = Now();
    TERN_RETURN_IF_ERROR(pinger.Ping(payload));
    ping_seconds.push_back(Seconds(Now() - begin));
  }
  const double cpu_per_ping_s = (ProcessCpuSeconds() - cpu_before_s) / count;
  std::nth_element(ping_seconds.begin(), ping_seconds.begin() + count / 2, ping_seconds.end());
  return PingTimes{ping_seconds[static_cast<size_t>(count) / 2], cpu_per_ping_s};
}

// Returns the median seconds to pass an item from one thread to another through a Channel.
double MeasureChannelHop() {
  constexpr int kNumPasses = 1000;
  Channel<int> to_returner, from_returner;
  Thread returner("hop", [&] {
    while (const auto item = to_returner.Pop()) from_returner.Push(*item);
  });
  std::vector<double> pass_seconds;
  for (int i = 0; i < kNumPasses; ++i) {
    const Time begin = Now();
    to_returner.Push(i);
    from_returner.Pop();
    pass_seconds.push_back(Seconds(Now() - begin) / 2);
  }
  to_returner.Close();
  std::nth_element(pass_seconds.begin(), pass_seconds.begin() + kNumPasses / 2, pass_seconds.end());
  return pass_seconds[kNumPasses / 2];
}

}  // namespace

Result<MessageCost> MeasureMessages() {
  constexpr size_t kLargeBytes = 1 << 20;
  constexpr int kSmallPings = 2000, kLargePings = 200;
  net::Context context;
  net::SocketOptions options;
  auto echo_server = EchoServer::Start(context, options);
  if (!echo_server.ok()) return echo_server.status();
  auto socket = net::DealerSocket::Connect(context, "127.0.0.1", (*echo_server)->port(), options);
  if (!socket.ok()) return socket.status();
  Pinger pinger(**socket);
  const Result<PingTimes> small_pings = RepeatPing(pinger, {}, kSmallPings);
  if (!small_pings.ok()) return small_pings.status();
  const Bytes payload = Bytes::Own(std::vector<uint8_t>(kLargeBytes, 1));
  const Result<PingTimes> large_pings = RepeatPing(pinger, payload, kLargePings);
  if (!large_pings.ok()) return large_pings.status();
  MessageCost cost;
  cost.message_s = small_pings->median_s / 2;
  // A ping is two messages, and each costs CPU time on two sides.
  cost.message_cpu_s = std::min(small_pings->cpu_s / 4, cost.message_s / 2);
  cost.byte_cpu_s = std::max(0.0, large_pings->cpu_s - small_pings->cpu_s) / 4 / kLargeBytes;
  cost.hop_s = MeasureChannelHop();
  return cost;
}

}  // namespace tern::tools
