#include <cerrno>

#include "common/base/text.h"
#include "common/net/address.h"
#include "common/net/peer_map.h"
#include "common/net/socket.h"
#include "common/net/socket_impl.h"
#include "common/net/zap_handler.h"
#include "common/net/zmq_version.h"

namespace tern::net {
namespace {

constexpr size_t kMaxPeers = 65536;
constexpr int kMaxDropped = 1000;  // messages of revoked peers that one call of Receive drops

Status BindError(const std::string& host, uint16_t port) {
  const int error = zmq_errno();
  const std::string address_text = ToString(Address{host, port});
  switch (error) {
    case EADDRINUSE:
      return Status(Code::kAddress, Cat("cannot bind to ", address_text, ": port ", port,
                                        " is in use; stop the program that has it or choose "
                                        "another port"));
    case EADDRNOTAVAIL:
    case ENODEV:
      return Status(
          Code::kAddress,
          Cat("cannot bind to ", address_text, ": ", host,
              " is not an address of this machine; give one of its addresses, or 0.0.0.0 for all"));
    case EACCES:
      return Status(Code::kAddress, Cat("cannot bind to ", address_text, ": port ", port,
                                        " needs privileges; choose a port from 1024 up"));
    default:
      return Status(Code::kAddress, Cat("cannot bind to ", address_text, ": ", ZmqError()));
  }
}

Result<uint16_t> BoundPort(void* handle) {
  char endpoint[512] = "";
  size_t endpoint_bytes = sizeof endpoint;
  if (zmq_getsockopt(handle, ZMQ_LAST_ENDPOINT, endpoint, &endpoint_bytes) == 0) {
    const std::string endpoint_text(endpoint);
    const Result<Address> address =
        ParseAddress(endpoint_text.substr(endpoint_text.rfind('/') + 1));
    if (address.ok() && address->port != 0) return address->port;
  }
  return Status(Code::kInternal, "cannot read the port of a bound socket");
}

// Connects to a socket of this process that is bound to `host`, without keys. kBadJob if that
// succeeds. It fails at once, because the first bytes of both ends name different mechanisms.
Status TryWithoutKeys(Context& context, const std::string& host, uint16_t port) {
  constexpr int kRefusals = ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                            ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                            ZMQ_EVENT_DISCONNECTED;
  auto impl = SocketImpl::Open(context, ZMQ_DEALER, SocketOptions());
  if (!impl.ok()) return impl.status();
  TERN_RETURN_IF_ERROR((*impl)->StartMonitor(context, kRefusals | ZMQ_EVENT_HANDSHAKE_SUCCEEDED));
  const std::string endpoint = Endpoint(host == "*" ? "127.0.0.1" : host, port);
  if (zmq_connect((*impl)->handle(), endpoint.c_str()) != 0)
    return Status(Code::kInternal, Cat("cannot connect to an own socket: ", ZmqError()));
  const Time end = Now() + std::chrono::seconds(1);
  zmq_pollitem_t item = {(*impl)->monitor(), 0, ZMQ_POLLIN, 0};
  for (Time now = Now(); now < end; now = Now()) {
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    zmq_poll(&item, 1, static_cast<long>(wait.count()));
    while (const int event = (*impl)->NextEvent().event) {
      if ((event & kRefusals) != 0) return Ok();
      return Status(Code::kBadJob,
                    "security: curve: the socket lets clients without keys in; this is a fault of "
                    "libzmq or of Tern, so the server does not start");
    }
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<RouterSocket>> RouterSocket::Bind(Context& context, const std::string& host,
                                                         uint16_t port,
                                                         const SocketOptions& options) {
  std::string numeric_host = "*";
  if (host != "*") {
    const auto addresses = Resolve(host);
    if (!addresses.ok()) return addresses.status();
    numeric_host = addresses->front();
  }
  auto impl = SocketImpl::Open(context, ZMQ_ROUTER, options);
  if (!impl.ok()) return impl.status();
  void* handle = (*impl)->handle();
  if (zmq_bind(handle, Endpoint(numeric_host, port).c_str()) != 0) return BindError(host, port);
  const Result<uint16_t> bound_port = BoundPort(handle);
  if (!bound_port.ok()) return bound_port.status();
  if ((*impl)->has_keys()) TERN_RETURN_IF_ERROR(TryWithoutKeys(context, numeric_host, *bound_port));
  if (options.zap_handler != nullptr)
    TERN_RETURN_IF_ERROR((*impl)->ReportTo(context, options.zap_handler));
  const ZapHandler* checks_keys = (*impl)->has_keys() ? options.zap_handler : nullptr;
  return std::unique_ptr<RouterSocket>(
      new RouterSocket(std::move(*impl), checks_keys, *bound_port));
}

Result<std::unique_ptr<RouterSocket>> RouterSocket::BindLocal(Context& context,
                                                              const std::string& path,
                                                              const SocketOptions& options) {
  auto impl = SocketImpl::Open(context, ZMQ_ROUTER, options);
  if (!impl.ok()) return impl.status();
  if (zmq_bind((*impl)->handle(), ("ipc://" + path).c_str()) != 0)
    return Status(Code::kAddress, Cat("cannot bind to ", path, ": ", ZmqError()));
  return std::unique_ptr<RouterSocket>(new RouterSocket(std::move(*impl), nullptr, 0));
}

RouterSocket::RouterSocket(std::unique_ptr<SocketImpl> impl, const ZapHandler* checks_keys,
                           uint16_t port)
    : impl_(std::move(impl)),
      peers_(std::make_unique<PeerMap>(kMaxPeers)),
      checks_keys_(checks_keys),
      port_(port) {}

RouterSocket::~RouterSocket() = default;

uint16_t RouterSocket::port() const { return port_; }

SendResult RouterSocket::Send(PeerId peer, const pb::Envelope& envelope, const Bytes& payload) {
  const std::string* routing_id = peers_->RoutingId(peer);
  if (routing_id == nullptr) {
    return {SendOutcome::kUnreachable, Status(Code::kPeerLost, "the peer is not known any more")};
  }
  if (!envelope.has_refuse() && !IsAllowed(peers_->CredentialsOf(peer)))
    return {SendOutcome::kUnreachable, Status(Code::kPeerLost, "the peer's key was revoked")};
  return impl_->Send(routing_id, envelope, payload);
}

bool RouterSocket::IsAllowed(const Credentials& credentials) const {
  if (checks_keys_ == nullptr) return true;
  return credentials.principal.has_value() &&
         checks_keys_->Allows(credentials.key, *credentials.principal);
}

std::optional<ReceivedMessage> RouterSocket::Receive() {
  // Peers that are not allowed any more may send without end.
  for (int num_dropped = 0; num_dropped < kMaxDropped; ++num_dropped) {
    Sender sender;
    std::optional<ReceivedMessage> received = impl_->Receive(&sender);
    if (!received) return received;
    if (!IsAllowed(sender.credentials)) continue;
    received->peer = peers_->IdOfSender(sender.routing_id, sender.credentials);
    return received;
  }
  return std::nullopt;
}

std::vector<PeerId> RouterSocket::RevokedPeers() const {
  return peers_->PeersUnless(
      [&](const Credentials& credentials) { return IsAllowed(credentials); });
}

void RouterSocket::Forget(PeerId peer) { peers_->Forget(peer); }

void RouterSocket::Disconnect(PeerId peer) {
  const std::string* const routing_id = peers_->RoutingId(peer);
  if (routing_id != nullptr && ZmqHasTernsPatches()) impl_->Disconnect(*routing_id);
  Forget(peer);
}

void RouterSocket::CloseAfterFlush() { impl_->Close(kFlushTimeMs); }

}  // namespace tern::net
