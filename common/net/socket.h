// ZeroMQ sockets for Tern's messages. Options of the sockets limit how many bytes a peer can make
// this process store. Errors are returned, never thrown. A socket belongs to one thread at a time;
// a Context may be shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/net/frame.h"
#include "common/net/lookup.h"
#include "common/net/pacing.h"
#include "common/net/security.h"
#include "common/net/traffic.h"

namespace tern::net {

// Owns libzmq's I/O threads. Must outlive its sockets; a forked child process cannot use it. The
// destructor waits, for at most kFlushTimeMs, until sockets closed by CloseAfterFlush have sent
// everything.
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

class ZapHandler;

struct SocketOptions {
  // The largest payload in bytes, sent or received. libzmq closes the connection to a peer that
  // sends a frame larger than both max_payload_bytes and kMaxHeaderBytes.
  size_t max_payload_bytes = (1 << 20) + (64 << 10);
  // The most messages that wait to be sent to a peer. Choose a limit that is never reached: at
  // least twice the number of messages that a peer may leave unanswered.
  int high_water_mark = 1000;
  // The most messages of a peer that wait to be received, and no more than high_water_mark. Then
  // TCP slows the peer down, so that a stranger that sends faster costs bounded memory.
  int max_waiting = 64;
  Traffic* traffic = nullptr;  // if set, counts all frames; must outlive the socket
  // How the peers know each other; null: they do not (Mechanism::kNull). Must outlive the socket.
  const Security* security = nullptr;
  // Of a RouterSocket: decides who may connect. Required with kCurve. Must outlive the socket.
  ZapHandler* zap_handler = nullptr;
  // Of a DealerSocket with kCurve: connects only to a server that has a key of this shard.
  uint32_t shard = 0;
  Pacing pacing{};      // of a DealerSocket; that of a RouterSocket is in ZapHandler::Options
  Resolver resolver{};  // of a DealerSocket: how it looks the server's host up; empty: Resolve
};

// Identifies a peer of a RouterSocket. Constant until the peer closes its socket or RouterSocket
// forgets the peer. Never reused, never 0.
using PeerId = uint64_t;

struct ReceivedMessage {
  PeerId peer = 0;  // the sender; 0 if a DealerSocket received the message
  // Whose key the sender has. Set by a RouterSocket with kCurve, for every message. The principal
  // of a PeerId never changes.
  std::optional<Principal> principal;
  pb::Envelope envelope;
  Bytes payload;            // refers to the memory of the received frame, without a copy
  uint64_t wire_bytes = 0;  // the bytes of all frames on the wire, including malformed frames
  // Set if the message is malformed; envelope and payload are then empty. The caller may still send
  // an answer to `peer`.
  std::optional<FrameError> error;
};

enum class SendOutcome {
  kOk,           // the message was handed to libzmq, which delivers it at most once
  kUnreachable,  // the peer is not connected; nothing was or will be sent
  kFull,         // the queue is at the high water mark; nothing was sent, try again later
  kRefused,      // a bug of the caller: no body, a message too large, or a closed socket
};
struct [[nodiscard]] SendResult {
  SendOutcome outcome = SendOutcome::kOk;
  Status status;  // kPeerLost for kUnreachable and kFull; kInternal for kRefused
  bool ok() const { return outcome == SendOutcome::kOk; }
};

// Payloads of at least this size are sent without a copy; an I/O thread of libzmq releases the
// Bytes after sending.
inline constexpr size_t kZeroCopyBytes = 64 * 1024;

struct Credentials;
class PeerMap;
class SocketImpl;  // A wrapper of a ZeroMQ socket, defined in socket_impl.h.
struct MonitorEvent;

// The server's end of its connections to any number of workers.
class RouterSocket {
 public:
  // Binds to host:port; port 0 takes any free port. `host` is an IPv4 or IPv6 address (brackets
  // allowed), a name (its first address is used), or "*" for all addresses. kAddress, with
  // different messages: the port is in use, the name does not resolve, the address is not one of
  // this machine. With kCurve, also kBadJob if the bound socket lets a client without keys in,
  // which Bind tries out; kInternal without a ZapHandler.
  static Result<std::unique_ptr<RouterSocket>> Bind(Context& context, const std::string& host,
                                                    uint16_t port, const SocketOptions& options);
  // Binds to a Unix socket, the file `path`, in place of one that an ended process has left there.
  // Who may connect is decided by the permissions of its folder. kAddress if that is not possible.
  static Result<std::unique_ptr<RouterSocket>> BindLocal(Context& context, const std::string& path,
                                                         const SocketOptions& options);
  // If CloseAfterFlush was not called, drops unsent messages.
  ~RouterSocket();

  uint16_t port() const;  // 0 if it is bound to a Unix socket

  // Never waits. The bytes of `payload` must not change while any copy of that Bytes object exists.
  // A peer whose key the ZapHandler does not allow any more is reached only by a Refuse; for all
  // other messages it is kUnreachable.
  SendResult Send(PeerId peer, const pb::Envelope& envelope, const Bytes& payload = {});
  // Returns the next message, which may be malformed; nullopt if there is none. Never waits. Drops
  // messages of peers whose key the ZapHandler does not allow any more.
  std::optional<ReceivedMessage> Receive();
  // Forgets a peer: Send to this PeerId then returns kUnreachable. If the peer sends again, it gets
  // a new PeerId. Beyond 65,536 peers the socket forgets the one whose last message is oldest, so
  // that unknown peers cannot exhaust memory.
  void Forget(PeerId peer);
  // Forgets a peer, closes its connection, and drops what it has sent. It may connect again. With a
  // libzmq without Tern's patches, it only forgets the peer.
  void Disconnect(PeerId peer);
  // The peers whose key the ZapHandler does not allow any more.
  std::vector<PeerId> RevokedPeers() const;

  // Closes the socket; the context's destructor continues to send for up to kFlushTimeMs.
  void CloseAfterFlush();

 private:
  friend class Poller;
  RouterSocket(std::unique_ptr<SocketImpl> impl, const ZapHandler* checks_keys, uint16_t port);
  bool IsAllowed(const Credentials& credentials) const;

  const std::unique_ptr<SocketImpl> impl_;
  const std::unique_ptr<PeerMap> peers_;
  const ZapHandler* const checks_keys_;  // with kCurve: the ZapHandler; else null
  const uint16_t port_;
};

// The worker's end of a single connection to a server. After the connection is lost, make a new
// socket, so that no old message reaches a restarted server.
class DealerSocket {
 public:
  // Starts to connect to host:port. Retries every 100 ms to 2 s, driven by calls of link(), Send,
  // Receive or a Poller. A name is looked up meanwhile, again and again until it resolves (see
  // obstacle()); its addresses are tried in turn, beginning with number `attempt` modulo their
  // count; with kCurve, each address with each key of the shard.
  // `replaced`, if set: the socket that the new one replaces. If the server refuses this daemon or,
  // with kCurve, its newest handshake failed, the new socket waits as long as the old one would
  // have waited, so that such a server is not asked all the time. kAddress: the port is 0.
  // kBadJob: the shard's keys are not known.
  static Result<std::unique_ptr<DealerSocket>> Connect(Context& context, const std::string& host,
                                                       uint16_t port, const SocketOptions& options,
                                                       unsigned attempt = 0,
                                                       const DealerSocket* replaced = nullptr);
  // The same to the Unix socket at `path` (RouterSocket::BindLocal).
  static Result<std::unique_ptr<DealerSocket>> ConnectLocal(Context& context,
                                                            const std::string& path,
                                                            const SocketOptions& options);
  ~DealerSocket();

  // libzmq's view of the connection. A closed connection is seen at once. But a peer that is
  // stopped, or behind a broken network, stays kUp, so heartbeats are needed as well. kLost is
  // final: Send then returns kUnreachable, and Receive still returns messages that arrived before.
  enum class Link { kConnecting, kUp, kLost };
  Link link();
  // Whether the newest try with a result reached a server that did not complete the handshake: it
  // has another key, does not allow this daemon's key, or is no server of Tern. With kCurve, a
  // socket that was replaced during the handshake counts, too.
  bool handshake_failed() const { return handshake_failed_; }
  // Why the server seems to refuse this daemon, and what to do, as the rest of a sentence that
  // begins with the server's name; empty if it does not seem to. One handshake that the server
  // denied is enough; of those that it did not complete it takes several, because a single one may
  // have met a server that was ending. It holds until a handshake succeeds, even if the server is
  // gone.
  std::string refusal() const;
  // Why there is no connection, if that is known; the message is the rest of a sentence that begins
  // with the server's name. kNotAllowed: refusal(). kAddress: its host does not resolve. Else Ok.
  Status obstacle() const;
  // When the connection is up: which way it took (path.h), once; else empty.
  std::string TakePath() { return std::exchange(path_, ""); }

  // Never waits. kUnreachable before the connection is up and after its loss.
  SendResult Send(const pb::Envelope& envelope, const Bytes& payload = {});
  std::optional<ReceivedMessage> Receive();
  void CloseAfterFlush();

 private:
  friend class Poller;
  DealerSocket(std::unique_ptr<SocketImpl> impl, std::shared_ptr<Lookup> lookup, uint16_t port,
               size_t num_keys, unsigned attempt);
  // Connects as soon as the host's addresses are known.
  Status Begin();
  const std::string& endpoint() const { return endpoints_[try_number_ % endpoints_.size()]; }
  Status TryConnect();
  void TryAgain();
  void OnMonitorEvent(const MonitorEvent& event);
  void OnFailure(const MonitorEvent& event);
  void ForgetFailures();
  // Goes on as `replaced` would have, if the server refuses this daemon.
  void TakeOver(const DealerSocket& replaced);

  const std::unique_ptr<SocketImpl> impl_;
  // Of the server's host; passed on to the next socket. Null for a Unix socket.
  const std::shared_ptr<Lookup> lookup_;
  const uint16_t port_;
  std::vector<std::string>
      endpoints_;          // one per address of the host; tried in turn. Empty: unknown
  const size_t num_keys_;  // of the server shard; 1 without keys
  size_t try_number_;      // which endpoint and which key the newest try uses: see endpoint()
  bool handshake_failed_ = false;
  bool is_in_handshake_ = false;  // there is a TCP connection, and no result of the handshake yet
  size_t num_failed_handshakes_ = 0;  // since the server was last known not to refuse this daemon
  bool is_denied_ = false;  // the server answered one of them that it does not let this daemon in
  Link link_ = Link::kConnecting;
  int connected_fd_ = -1;         // of the TCP connection
  std::string path_;              // see TakePath()
  std::optional<Time> retry_at_;  // when to try again: after a failed attempt, or without addresses
  Time retry_wait_;               // how long to wait after the next failed attempt
};

}  // namespace tern::net
