// Decides which connections to a process's RouterSockets are accepted: libzmq asks it at the end of
// each handshake (ZAP, ZeroMQ RFC 27). It has a thread of its own.
//
// With keys (Mechanism::kCurve), it accepts a connection whose key is in the allow list, and tells
// the socket whose key it is. Without keys, it accepts connections from allowed networks only, and
// a limited number from one address, because a peer with very many of them can guess what libzmq
// calls another connection (its routing id), and so end the process.
//
// With or without keys, it also limits the connections of one address that do not end their
// handshakes.
//
// If its thread ends, libzmq refuses all new connections.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/counters.h"
#include "common/base/event_fd.h"
#include "common/base/ip_network.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/threads.h"
#include "common/net/pacing.h"
#include "common/net/security.h"

namespace tern::net {

class Connections;
class Context;

class ZapHandler {
 public:
  struct Options {
    const Security* security = nullptr;  // null: as kNull; must outlive the handler
    // Without keys: the most connections that one address may have at a time, and the networks from
    // which connections are accepted; none: from everywhere.
    size_t max_connections_per_address = 64;
    std::vector<IpNetwork> networks{};
    // Gets tern_net_handshakes_total, tern_net_connections and tern_security; must outlive the
    // handler.
    Registry* registry = nullptr;
    // With or without keys: how many connections one address may have beyond that number while they
    // have not ended their handshakes. More are closed when they are accepted: a silent one takes
    // 4 KB for the 3 s until libzmq closes it, one that is denied 27 KB.
    size_t max_surplus_per_address = 250;
    Pacing pacing{};  // of each connection that is accepted
  };
  // Starts the thread. Call before the first RouterSocket of the context is bound, at most once for
  // a context. kInternal: libzmq cannot open or bind the socket on which it asks.
  static Result<std::unique_ptr<ZapHandler>> Start(Context& context, const Options& options);
  // All RouterSockets that use the handler must be closed before.
  ~ZapHandler();
  ZapHandler(const ZapHandler&) = delete;
  ZapHandler& operator=(const ZapHandler&) = delete;

  // Replaces the allow list. Connections whose key is not in it any more stay, but RouterSockets
  // drop what they send. Any thread may call this.
  void SetAllowed(AllowList allowed);
  // Whether the allow list says that the key is this principal's. Any thread may call this.
  bool Allows(const PublicKey& key, const Principal& principal) const;
  // Why the thread has ended; ok while it runs. The process must then end, because nobody can
  // connect to it. Any thread may call this.
  Status failure() const;

  // For the sockets of common/net only: the domain that their requests name; and the handler is to
  // follow the connections of the router `handle` until its monitor is stopped.
  const std::string& domain() const { return domain_; }
  Status Watch(Context& context, void* handle);

 private:
  ZapHandler(void* socket, const Options& options);
  void Run();
  // Waits for requests and events, and handles them.
  Status Turn();
  Status AnswerRequests();
  // The parts of an answer to a request.
  struct Verdict {
    std::string code, text, user_id, metadata;
  };
  Verdict Judge(const std::vector<std::string>& request);
  // Without keys: why a connection from this address is denied; empty if it is accepted.
  std::string WhyDenied(const std::string& address) const;
  std::optional<Principal> OwnerOf(const PublicKey& key) const;  // by the allow list
  void LogDenial(const std::string& address, const std::string& reason);

  void* const socket_;  // the REP socket of ZAP
  const bool has_keys_;
  const std::string domain_;
  const size_t max_connections_per_address_;
  const std::vector<IpNetwork> networks_;
  std::unique_ptr<Connections> connections_;
  uint64_t num_unlogged_denials_ = 0;
  Time denial_logged_at_{};
  EventFd wake_up_;
  std::atomic<bool> must_stop_{false};
  mutable Mutex mutex_;
  AllowList allowed_ TERN_GUARDED_BY(mutex_);
  std::vector<void*> new_monitors_ TERN_GUARDED_BY(mutex_);  // Run() passes them to connections_
  Status failure_ TERN_GUARDED_BY(mutex_);
  Thread thread_;  // The last member, because the thread uses all others.
};

}  // namespace tern::net
