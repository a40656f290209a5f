// ZeroMQ sockets for Tern's messages. Their options limit what a peer can do; all errors are
// values. A socket belongs to one thread at a time; a Context may be shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/net/frame.h"
#include "common/net/traffic.h"

namespace tern::net {

// Owns the I/O threads. Must outlive its sockets; does not survive a fork. The destructor waits,
// for at most kFlushTimeMs, until sockets closed by CloseAfterFlush have sent everything.
class Context {
 public:
  explicit Context(int io_threads = 1);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void* handle() const { return handle_; }  // for common/net only

 private:
  void* handle_;
};

inline constexpr int kFlushTimeMs = 2000;

struct SocketOptions {
  // The largest payload in bytes, sent or received. libzmq closes the connection to a peer that
  // sends a frame larger than this and than kMaxHeaderBytes.
  size_t max_payload = (1 << 20) + (64 << 10);
  // Messages queued per peer and direction. Set it to at least twice the credit, so that it is
  // never reached.
  int high_water_mark = 1000;
  Traffic* traffic = nullptr;  // if set, counts all frames; must outlive the socket
};

// A peer of a RouterSocket. Constant for the lifetime of the peer's socket, never reused, never 0.
using PeerId = uint64_t;

struct Received {
  PeerId peer = 0;  // RouterSocket only
  pb::Envelope envelope;
  Bytes payload;            // the received frame itself, not a copy
  uint64_t wire_bytes = 0;  // the size of all frames, also of malformed ones
  // Set if the message was refused; envelope and payload are then empty. A reply to `peer` is
  // possible.
  std::optional<FrameError> error;
};

enum class Sent {
  kOk,           // handed to libzmq; delivered at most once
  kUnreachable,  // the peer is not, or no longer, connected; nothing was or will be sent
  kFull,         // at the high water mark; nothing was sent, try again later
  kRefused,      // a bug in Tern: no body, too large, or the socket is closed
};
struct [[nodiscard]] SendResult {
  Sent outcome = Sent::kOk;
  Status status;  // ok, kPeerLost (kUnreachable and kFull), kInternal (kRefused)
  bool ok() const { return outcome == Sent::kOk; }
};

// Payloads of at least this size are sent without a copy; an I/O thread drops their Bytes later.
inline constexpr size_t kZeroCopyBytes = 64 * 1024;

class PeerMap;
class SocketImpl;  // wraps ZeroMQ; in socket_impl.h

// The server's end of connections: many peers.
class RouterSocket {
 public:
  // Binds to host:port; port 0 takes any free port. `host` is an IPv4 or IPv6 address (brackets
  // allowed), a name (its first address is used), or "*" for all addresses. kAddress, with
  // different messages: the port is in use, the name does not resolve, the address is not one of
  // this machine.
  static Result<std::unique_ptr<RouterSocket>> Bind(Context& context, const std::string& host,
                                                    uint16_t port, const SocketOptions& options);
  ~RouterSocket();  // drops unsent messages, unless CloseAfterFlush was called

  uint16_t port() const;

  // Never waits. The payload must not change until its Bytes is dropped.
  SendResult Send(PeerId peer, const pb::Envelope& envelope, const Bytes& payload = {});
  // The next message, which may be a malformed one; empty if there is none. Never waits.
  std::optional<Received> Receive();
  // Forgets a peer: Send to it returns kUnreachable. If it sends again, it gets a new PeerId.
  // Beyond 65,536 peers the socket forgets the one whose last message is oldest, so that unknown
  // peers cannot exhaust memory.
  void Forget(PeerId peer);

  // Closes the socket; the context's destructor continues to send for up to kFlushTimeMs.
  void CloseAfterFlush();

 private:
  friend class Poller;
  RouterSocket(std::unique_ptr<SocketImpl> impl, uint16_t port);

  const std::unique_ptr<SocketImpl> impl_;
  const std::unique_ptr<PeerMap> peers_;
  const uint16_t port_;
};

// The worker's end of a connection: one peer. A socket is a single connection; make a new socket
// after a loss, so that no old message reaches a restarted server.
class DealerSocket {
 public:
  // Starts to connect to host:port. Retries every 100 ms to 2 s, driven by calls of link(), Send,
  // Receive or a Poller. A name is resolved once; its addresses are tried in turn, beginning with
  // number `attempt` modulo their count. kAddress: the host does not resolve.
  static Result<std::unique_ptr<DealerSocket>> Connect(Context& context, const std::string& host,
                                                       uint16_t port, const SocketOptions& options,
                                                       unsigned attempt = 0);
  ~DealerSocket();

  // libzmq's view of the connection. It reacts fast, but a stopped or partitioned peer stays kUp,
  // so heartbeats are needed as well. kLost is final: Send then returns kUnreachable, and Receive
  // still returns messages that arrived before.
  enum class Link { kConnecting, kUp, kLost };
  Link link();

  // Never waits. kUnreachable before the connection is up and after its loss.
  SendResult Send(const pb::Envelope& envelope, const Bytes& payload = {});
  std::optional<Received> Receive();
  void CloseAfterFlush();

 private:
  friend class Poller;
  DealerSocket(std::unique_ptr<SocketImpl> impl, std::vector<std::string> endpoints,
               unsigned attempt);
  Status TryConnect();
  void Retry();
  void OnMonitorEvent(int event);

  const std::unique_ptr<SocketImpl> impl_;
  const std::vector<std::string> endpoints_;  // tried in turn
  size_t tries_;
  Link link_ = Link::kConnecting;
  std::optional<Time> retry_at_;  // set after a failed attempt
  Time retry_wait_;
};

}  // namespace tern::net
