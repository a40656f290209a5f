// The connections that a process's RouterSockets have now, from the events of libzmq's monitors,
// with the metrics about them and log lines about failed handshakes. Used by one thread, that of
// the ZapHandler. Only for the .cc files of common/net.
//
//   tern_net_handshakes_total{result="ok|denied|failed|timeout"}
//   tern_net_connections
#pragma once

#include <zmq.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/rate_limit.h"
#include "common/net/pacing.h"
#include "common/net/socket_impl.h"

namespace tern::net {

class Connections {
 public:
  // The events that a monitor must report.
  static constexpr int kEvents =
      ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_DISCONNECTED |
      ZMQ_EVENT_MONITOR_STOPPED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
      ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
      ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

  // `has_keys`: whether the sockets use CURVE. Closes connections that are accepted beyond
  // `max_per_origin`. `pacing`: of each connection.
  Connections(Registry& registry, bool has_keys, size_t max_per_origin, const Pacing& pacing);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Takes over a monitor, a socket of OpenMonitor.
  void Add(void* monitor);
  const std::vector<void*>& monitors() const { return monitors_; }
  // Reads all events that have come.
  void ReadEvents(Time now);
  // How many connections there are from this origin, in handshake or after it.
  size_t NumFrom(const std::string& origin) const;

 private:
  struct Connection {
    void* monitor;
    std::string origin;
    Time accepted_at;
  };
  // Returns false if the monitored socket was closed.
  bool ReadEventsOf(void* monitor, Time now);
  void OnAccepted(void* monitor, int fd, Time now);
  void OnDisconnected(int fd, Time now);
  void LogFailure(const std::string& origin, bool is_timeout, Time now);
  void LogAcceptFailure(int error, Time now);
  void Drop(std::unordered_map<int, Connection>::iterator connection);

  const bool has_keys_;
  const size_t max_per_origin_;
  const Pacing pacing_;
  std::vector<void*> monitors_;
  std::unordered_map<int, Connection> connections_;  // by file descriptor
  std::unordered_map<std::string, size_t> num_by_origin_;
  // Of the next connection that closes: whether its handshake failed, and whether by what it sent.
  enum class Failure : uint8_t { kNone, kProtocol, kUnknown } failure_ = Failure::kNone;
  std::unordered_map<std::string, Time> failures_logged_at_;  // by origin
  RateLimiter failure_log_limiter_{16, std::chrono::seconds(1)};
  Time accept_failure_logged_at_{};
  Counter &num_ok_, &num_denied_, &num_failed_, &num_timeouts_;
  Gauge& num_connections_;
};

}  // namespace tern::net
