#include "common/net/connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/net/origin.h"
#include "common/net/pacing.h"

namespace tern::net {
namespace {

// A little less than ZMQ_HANDSHAKE_IVL (SocketImpl::SetOptions).
constexpr Time kHandshakeTimeout = std::chrono::milliseconds(2900);
constexpr Time kAcceptFailureLogInterval = std::chrono::minutes(1);
// Of one origin. Probes of monitoring systems come again and again.
constexpr Time kFailureLogInterval = std::chrono::minutes(1);
constexpr size_t kMaxFailedOrigins = 1000;

Counter& HandshakeCounter(Registry& registry, const char* result) {
  return registry.GetCounter("tern_net_handshakes_total",
                             "Handshakes of connections to this process, by result.",
                             {{"result", result}});
}

}  // namespace

Connections::Connections(Registry& registry, bool has_keys, size_t max_per_origin,
                         const Pacing& pacing)
    : has_keys_(has_keys),
      max_per_origin_(max_per_origin),
      pacing_(pacing),
      num_ok_(HandshakeCounter(registry, "ok")),
      num_denied_(HandshakeCounter(registry, "denied")),
      num_failed_(HandshakeCounter(registry, "failed")),
      num_timeouts_(HandshakeCounter(registry, "timeout")),
      num_connections_(registry.GetGauge(
          "tern_net_connections", "Connections to this process, in handshake or after it.")) {}

Connections::~Connections() {
  for (void* monitor : monitors_) zmq_close(monitor);
}

void Connections::Add(void* monitor) { monitors_.push_back(monitor); }

void Connections::ReadEvents(Time now) {
  std::erase_if(monitors_, [&](void* monitor) {
    if (ReadEventsOf(monitor, now)) return false;
    for (auto next = connections_.begin(); next != connections_.end();) {
      const auto connection = next++;
      if (connection->second.monitor == monitor) Drop(connection);
    }
    zmq_close(monitor);
    return true;
  });
  num_connections_.Set(static_cast<double>(connections_.size()));
}

size_t Connections::NumFrom(const std::string& origin) const {
  const auto found = num_by_origin_.find(origin);
  return found == num_by_origin_.end() ? 0 : found->second;
}

bool Connections::ReadEventsOf(void* monitor, Time now) {
  while (true) {
    const MonitorEvent read = ReadMonitorEvent(monitor);
    switch (read.event) {
      case 0:
        return true;
      case ZMQ_EVENT_MONITOR_STOPPED:
        return false;
      case ZMQ_EVENT_ACCEPTED:
        OnAccepted(monitor, read.value, now);
        break;
      case ZMQ_EVENT_ACCEPT_FAILED:
        LogAcceptFailure(read.value, now);
        break;
      case ZMQ_EVENT_DISCONNECTED:
        OnDisconnected(read.value, now);
        break;
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        num_ok_.Add();
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        num_denied_.Add();
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        failure_ = Failure::kProtocol;  // DISCONNECTED follows at once, and tells whose it was.
        break;
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        failure_ = Failure::kUnknown;
        break;
      default:
        break;
    }
  }
}

void Connections::OnAccepted(void* monitor, int fd, Time now) {
  const std::string origin = OriginOfPeer(fd);
  if (origin.empty()) return;  // It is closed already.
  if (const auto old = connections_.find(fd); old != connections_.end()) Drop(old);
  connections_[fd] = Connection{monitor, origin, now};
  Pace(fd, pacing_);
  // libzmq asks about a connection at the end of its handshake, and each has memory before that. It
  // closes its end when it finds the other one closed.
  if (++num_by_origin_[origin] > max_per_origin_) shutdown(fd, SHUT_RDWR);
}

void Connections::OnDisconnected(int fd, Time now) {
  const auto connection = connections_.find(fd);
  if (const Failure failure = std::exchange(failure_, Failure::kNone); failure != Failure::kNone) {
    const bool is_timeout = failure == Failure::kUnknown && connection != connections_.end() &&
                            now - connection->second.accepted_at >= kHandshakeTimeout;
    (is_timeout ? num_timeouts_ : num_failed_).Add();
    // A connection that was closed before OnAccepted looked at it has no origin.
    LogFailure(connection == connections_.end() ? "" : connection->second.origin, is_timeout, now);
  }
  if (connection != connections_.end()) Drop(connection);
}

void Connections::Drop(std::unordered_map<int, Connection>::iterator connection) {
  const auto count = num_by_origin_.find(connection->second.origin);
  if (--count->second == 0) num_by_origin_.erase(count);
  connections_.erase(connection);
}

void Connections::LogFailure(const std::string& origin, bool is_timeout, Time now) {
  const auto logged = failures_logged_at_.find(origin);
  if (logged != failures_logged_at_.end() && now - logged->second < kFailureLogInterval) return;
  if (!failure_log_limiter_.Allow(now)) return;
  if (failures_logged_at_.size() > kMaxFailedOrigins) failures_logged_at_.clear();
  failures_logged_at_[origin] = now;
  const char* const reason =
      is_timeout  ? "it was not completed in time"
      : has_keys_ ? "it has no keys, or does not expect the key of this server"
                  : "it expects a server with keys (security: curve), or is no daemon of Tern";
  LOG(WARNING) << "the handshake of a connection "
               << (origin.empty() ? "that is closed already" : Cat("from ", OriginText(origin)))
               << " failed: " << reason;
}

void Connections::LogAcceptFailure(int error, Time now) {
  const bool was_logged = accept_failure_logged_at_ != Time{};
  if (was_logged && now - accept_failure_logged_at_ < kAcceptFailureLogInterval) return;
  accept_failure_logged_at_ = now;
  if (error == EUSERS) {
    LOG(WARNING)
        << "an address opens connections without end; beyond 200 at once, and 10 a second in "
           "the long run, they are closed; if it is no host of the job, keep it out by a firewall";
    return;
  }
  LOG(ERROR) << "cannot accept a connection: " << zmq_strerror(error) << "; this process has "
             << connections_.size()
             << " connections; if it is out of file descriptors, raise the limit of open files "
                "(ulimit -n, LimitNOFILE)";
}

}  // namespace tern::net
