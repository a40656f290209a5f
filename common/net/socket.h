// ZeroMQ sockets that carry Tern's messages. Their settings bound what a peer can do, and every
// error is a value. A socket belongs to one thread at a time; a Context to all.
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

// Owns the I/O threads. Outlives its sockets; does not survive a fork. Its destructor waits until
// the sockets closed with a flush have sent everything, at most kFlushTimeMs.
class Context {
 public:
  explicit Context(int io_threads = 1);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void* handle() const { return handle_; }  // for net/ only

 private:
  void* handle_;
};

inline constexpr int kFlushTimeMs = 2000;

struct SocketOptions {
  // Largest payload in bytes, both ways. libzmq closes the connection of a peer that sends a frame
  // larger than both this and a header.
  size_t max_payload = (1 << 20) + (64 << 10);
  // Messages queued per peer and direction; at least twice the credits, so that it is never
  // reached.
  int high_water_mark = 1000;
  Traffic* traffic = nullptr;  // if given, counts all frames; outlives the socket
};

// A peer of one RouterSocket: constant as long as the peer's socket lives, never reused, never 0.
using PeerId = uint64_t;

struct Received {
  PeerId peer = 0;  // router only
  pb::Envelope envelope;
  Bytes payload;            // the received frame itself, not a copy
  uint64_t wire_bytes = 0;  // of all frames, malformed ones included
  // Set if the message was refused; envelope and payload are then empty. `peer` may be answered.
  std::optional<FrameError> error;
};

enum class Sent {
  kOk,           // handed to libzmq; delivered at most once
  kUnreachable,  // no such peer, or no longer; no part of it was or will be sent
  kFull,         // at the high water mark; nothing was sent, try again later
  kRefused,      // our own bug: no body, too large, or the socket is closed
};
struct [[nodiscard]] SendResult {
  Sent outcome = Sent::kOk;
  Status status;  // ok, kPeerLost (kUnreachable and kFull), kInternal (kRefused)
  bool ok() const { return outcome == Sent::kOk; }
};

// Payloads of at least this size are sent without a copy: an I/O thread drops their Bytes, later.
inline constexpr size_t kZeroCopyBytes = 64 * 1024;

class PeerMap;
class SocketImpl;  // the only one that sees ZeroMQ; in socket_impl.h

// The server's end: many peers.
class RouterSocket {
 public:
  // Binds to host:port; port 0 takes any free one. `host` is an IPv4 or IPv6 address (brackets
  // allowed), a name, of which the first address is used, or "*" for all. kAddress, each with its
  // own sentence: the port is in use, the name does not resolve, the address is not of this
  // machine.
  static Result<std::unique_ptr<RouterSocket>> Bind(Context& context, const std::string& host,
                                                    uint16_t port, const SocketOptions& options);
  ~RouterSocket();  // drops unsent messages, unless closed with a flush before

  uint16_t port() const;

  // Never waits. The payload must not change until its Bytes is dropped.
  SendResult Send(PeerId peer, const pb::Envelope& envelope, const Bytes& payload = {});
  // The next message, malformed ones included; nothing if none waits. Never waits.
  std::optional<Received> Receive();
  // Forgets a peer: Send to it is kUnreachable. If it sends again, it gets a new PeerId. Beyond
  // 65,536 peers the one heard least recently is forgotten, so that strangers cannot fill memory.
  void Forget(PeerId peer);

  // Closes; the context's destructor continues to send for up to kFlushTimeMs.
  void CloseAfterFlush();

 private:
  friend class Poller;
  RouterSocket(std::unique_ptr<SocketImpl> impl, uint16_t port);

  const std::unique_ptr<SocketImpl> impl_;
  const std::unique_ptr<PeerMap> peers_;
  const uint16_t port_;
};

// The worker's end: one peer. One socket is one connection: make a new one after a loss, so that no
// old message reaches a restarted server.
class DealerSocket {
 public:
  // Starts to connect to host:port and retries, 100 ms to 2 s apart, whenever link(), Send, Receive
  // or a Poller is called. A name is resolved once; its addresses are tried in turn, beginning with
  // number `attempt` modulo their count. kAddress: does not resolve.
  static Result<std::unique_ptr<DealerSocket>> Connect(Context& context, const std::string& host,
                                                       uint16_t port, const SocketOptions& options,
                                                       unsigned attempt = 0);
  ~DealerSocket();

  // libzmq's view of the connection: fast but unreliable; heartbeats give the truth (a stopped or
  // partitioned peer stays kUp). kLost is final: Send then returns kUnreachable, and Receive still
  // returns what arrived before.
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
  Status Try();
  void Retry();
  void Handle(int event);

  const std::unique_ptr<SocketImpl> impl_;
  const std::vector<std::string> endpoints_;  // tried in turn
  size_t tries_;
  Link link_ = Link::kConnecting;
  std::optional<Time> retry_at_;  // set once a try has failed
  Time retry_wait_;
};

}  // namespace tern::net
