#include <algorithm>
#include <cerrno>

#include "common/base/text.h"
#include "common/net/address.h"
#include "common/net/pacing.h"
#include "common/net/path.h"
#include "common/net/socket.h"
#include "common/net/socket_impl.h"

namespace tern::net {
namespace {

constexpr Time kFirstRetryWait = std::chrono::milliseconds(100);
constexpr Time kLongestRetryWait = std::chrono::seconds(2);
constexpr Time kLookupPollInterval = std::chrono::milliseconds(20);

// A failed try to connect. libzmq reports most failures as CONNECT_RETRIED, but reports a peer that
// does not complete the handshake only as a failed handshake.
constexpr int kHandshakeFailures = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                   ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                   ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
// How many handshakes have to fail before the server seems to refuse this daemon.
constexpr size_t kRefusedHandshakes = 2;
constexpr int kFailures = ZMQ_EVENT_CONNECT_RETRIED | kHandshakeFailures;
constexpr int kMonitoredEvents =
    ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | kFailures;

size_t NumKeys(const SocketOptions& options) {
  if (!HasKeys(options.security) || options.shard >= options.security->servers.size()) return 1;
  return std::max<size_t>(1, options.security->servers[options.shard].size());
}

SendResult UnreachableResult(const char* reason) {
  return {SendOutcome::kUnreachable, Status(Code::kPeerLost, reason)};
}

}  // namespace

Result<std::unique_ptr<DealerSocket>> DealerSocket::Connect(Context& context,
                                                            const std::string& host, uint16_t port,
                                                            const SocketOptions& options,
                                                            unsigned attempt,
                                                            const DealerSocket* replaced) {
  const std::string address_text = ToString(Address{host, port});
  if (port == 0) {
    return Status(Code::kAddress, Cat("cannot connect to ", address_text,
                                      ": port 0 is invalid; give the port that the server binds"));
  }
  auto impl = SocketImpl::Open(context, ZMQ_DEALER, options);
  if (!impl.ok()) return impl.status();
  // Monitors the socket before it connects, so that no event is missed.
  TERN_RETURN_IF_ERROR((*impl)->StartMonitor(context, kMonitoredEvents));
  // Asks anew, because a server that was started again may have another address. If a question of
  // the replaced socket is still open, its answer counts.
  const bool has_lookup = replaced != nullptr && replaced->lookup_->host() == host;
  auto lookup = has_lookup ? replaced->lookup_ : std::make_shared<Lookup>(host, options.resolver);
  lookup->Forget();
  std::unique_ptr<DealerSocket> socket(
      new DealerSocket(std::move(*impl), std::move(lookup), port, NumKeys(options), attempt));
  if (replaced != nullptr) socket->TakeOver(*replaced);
  if (socket->retry_at_.has_value()) return socket;
  if (const Status status = socket->Begin(); !status.ok()) {
    return status.Within("cannot connect to " + address_text);
  }
  return socket;
}

Result<std::unique_ptr<DealerSocket>> DealerSocket::ConnectLocal(Context& context,
                                                                 const std::string& path,
                                                                 const SocketOptions& options) {
  auto impl = SocketImpl::Open(context, ZMQ_DEALER, options);
  if (!impl.ok()) return impl.status();
  TERN_RETURN_IF_ERROR((*impl)->StartMonitor(context, kMonitoredEvents));
  std::unique_ptr<DealerSocket> socket(
      new DealerSocket(std::move(*impl), nullptr, 0, NumKeys(options), 0));
  socket->endpoints_.push_back("ipc://" + path);
  if (const Status status = socket->TryConnect(); !status.ok())
    return status.Within("cannot connect to " + path);
  return socket;
}

DealerSocket::DealerSocket(std::unique_ptr<SocketImpl> impl, std::shared_ptr<Lookup> lookup,
                           uint16_t port, size_t num_keys, unsigned attempt)
    : impl_(std::move(impl)),
      lookup_(std::move(lookup)),
      port_(port),
      num_keys_(num_keys),
      try_number_(attempt),
      retry_wait_(kFirstRetryWait) {}

DealerSocket::~DealerSocket() = default;

Status DealerSocket::Begin() {
  for (const std::string& address : lookup_->Poll(Now()))
    endpoints_.push_back(Endpoint(address, port_));
  if (!endpoints_.empty()) return TryConnect();
  retry_at_ = Now() + kLookupPollInterval;
  return Ok();
}

Status DealerSocket::TryConnect() {
  TERN_RETURN_IF_ERROR(impl_->PinServerKey(try_number_ / endpoints_.size()));
  if (zmq_connect(impl_->handle(), endpoint().c_str()) == 0) return Ok();
  return Status(Code::kAddress, ZmqError());
}

void DealerSocket::TryAgain() {
  retry_at_.reset();
  const bool is_first = endpoints_.empty();
  if (!is_first) {
    zmq_disconnect(impl_->handle(), endpoint().c_str());
    ++try_number_;
  }
  if (!(is_first ? Begin() : TryConnect()).ok()) retry_at_ = Now() + kLongestRetryWait;
}

void DealerSocket::TakeOver(const DealerSocket& replaced) {
  const bool has_failed = replaced.handshake_failed_ || replaced.is_in_handshake_;
  if (replaced.refusal().empty() && !(impl_->has_keys() && has_failed)) return;
  handshake_failed_ = has_failed;
  num_failed_handshakes_ = replaced.num_failed_handshakes_ + (replaced.is_in_handshake_ ? 1 : 0);
  is_denied_ = replaced.is_denied_;
  retry_wait_ = replaced.retry_wait_;
  retry_at_ = replaced.retry_at_;
}

void DealerSocket::OnMonitorEvent(const MonitorEvent& event) {
  if (event.event == ZMQ_EVENT_CONNECTED) {
    is_in_handshake_ = true;
    connected_fd_ = event.value;
    Pace(connected_fd_, impl_->pacing());
  } else if (event.event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    link_ = Link::kUp;
    path_ = DescribePath(connected_fd_);
    is_in_handshake_ = handshake_failed_ = false;
    ForgetFailures();
    retry_at_.reset();
  } else if (event.event == ZMQ_EVENT_DISCONNECTED && link_ == Link::kUp) {
    link_ = Link::kLost;
    impl_->StopMonitor();
  } else if ((event.event & kFailures) != 0 && !retry_at_) {
    OnFailure(event);
  }
}

void DealerSocket::OnFailure(const MonitorEvent& event) {
  is_in_handshake_ = false;
  handshake_failed_ = event.event != ZMQ_EVENT_CONNECT_RETRIED;
  // Without keys, a server that is only slow or stopped does not refuse anybody.
  const bool is_ended_by_server = event.event != ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL ||
                                  event.value == EPIPE || event.value == ECONNRESET;
  if (handshake_failed_ && (impl_->has_keys() || is_ended_by_server)) {
    ++num_failed_handshakes_;
    is_denied_ = is_denied_ || event.event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  } else if (refusal().empty() && (handshake_failed_ || endpoints_.size() == 1)) {
    // Of several addresses, another one may refuse this daemon. And a server that has refused it
    // and is gone has not changed its mind.
    ForgetFailures();
  }
  if (event.event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) retry_wait_ = kLongestRetryWait;
  retry_at_ = Now() + retry_wait_;
  retry_wait_ = std::min(2 * retry_wait_, kLongestRetryWait);
}

void DealerSocket::ForgetFailures() {
  num_failed_handshakes_ = 0;
  is_denied_ = false;
}

std::string DealerSocket::refusal() const {
  const bool has_keys = impl_->has_keys();
  if (is_denied_ && has_keys) {
    return "does not know the key of this daemon, or it was revoked; compare the keys of both "
           "hosts, which must have been made together";
  }
  if (is_denied_) {
    return "denies the connection, because this address is in no network of its list `allow`, or "
           "has "
           "too many connections; its log says which";
  }
  // Every address is tried with every key first.
  if (num_failed_handshakes_ < std::max(kRefusedHandshakes, endpoints_.size() * num_keys_))
    return "";
  if (has_keys) {
    return "does not hold the pinned key, or has no keys; compare the keys of both hosts, which "
           "must have been made together";
  }
  return "ends every handshake; it lets in only daemons with keys (security: curve), or is no "
         "server of Tern";
}

Status DealerSocket::obstacle() const {
  if (std::string why = refusal(); !why.empty()) return Status(Code::kNotAllowed, std::move(why));
  if (lookup_ == nullptr || lookup_->failure().empty()) return Ok();
  return Status(Code::kAddress, "has no address yet: " + lookup_->failure());
}

DealerSocket::Link DealerSocket::link() {
  for (MonitorEvent event = impl_->NextEvent(); event.event != 0; event = impl_->NextEvent())
    OnMonitorEvent(event);
  if (impl_->handle() == nullptr) retry_at_.reset();
  if (retry_at_ && Now() >= *retry_at_) TryAgain();
  return link_;
}

SendResult DealerSocket::Send(const pb::Envelope& envelope, const Bytes& payload) {
  switch (link()) {
    case Link::kConnecting:
      return UnreachableResult("there is no connection to the server yet");
    case Link::kLost:
      return UnreachableResult("the connection to the server was lost");
    case Link::kUp:
      break;
  }
  return impl_->Send(nullptr, envelope, payload);
}

std::optional<ReceivedMessage> DealerSocket::Receive() {
  link();
  return impl_->Receive(nullptr);
}

void DealerSocket::CloseAfterFlush() { impl_->Close(kFlushTimeMs); }

}  // namespace tern::net
