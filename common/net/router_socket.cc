#include <cerrno>

#include "common/base/text.h"
#include "common/net/address.h"
#include "common/net/peer_map.h"
#include "common/net/socket.h"
#include "common/net/socket_impl.h"

namespace tern::net {
namespace {

constexpr size_t kMaxPeers = 65536;

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
              " is not an address of this machine; give one of its addresses, or \"*\" for all"));
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
  return std::unique_ptr<RouterSocket>(new RouterSocket(std::move(*impl), *bound_port));
}

RouterSocket::RouterSocket(std::unique_ptr<SocketImpl> impl, uint16_t port)
    : impl_(std::move(impl)), peers_(std::make_unique<PeerMap>(kMaxPeers)), port_(port) {}

RouterSocket::~RouterSocket() = default;

uint16_t RouterSocket::port() const { return port_; }

SendResult RouterSocket::Send(PeerId peer, const pb::Envelope& envelope, const Bytes& payload) {
  const std::string* routing_id = peers_->RoutingId(peer);
  if (routing_id == nullptr) {
    return {SendOutcome::kUnreachable, Status(Code::kPeerLost, "the peer is not known any more")};
  }
  return impl_->Send(routing_id, envelope, payload);
}

std::optional<ReceivedMessage> RouterSocket::Receive() {
  std::string routing_id;
  std::optional<ReceivedMessage> received = impl_->Receive(&routing_id);
  if (received) received->peer = peers_->IdOfSender(routing_id);
  return received;
}

void RouterSocket::Forget(PeerId peer) { peers_->Forget(peer); }

void RouterSocket::CloseAfterFlush() { impl_->Close(kFlushTimeMs); }

}  // namespace tern::net
