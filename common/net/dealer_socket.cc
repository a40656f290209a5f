#include "common/base/text.h"
#include "common/net/address.h"
#include "common/net/socket.h"
#include "common/net/socket_impl.h"

namespace tern::net {

Result<std::unique_ptr<DealerSocket>> DealerSocket::Connect(Context& context,
                                                            const std::string& host, uint16_t port,
                                                            const SocketOptions& options,
                                                            unsigned attempt) {
  if (port == 0) {
    return Status(Code::kAddress, Cat("cannot connect to ", ToString(Address{host, port}),
                                      ": port 0 is no port; give the one that the server binds"));
  }
  const auto addresses = Resolve(host);
  if (!addresses.ok()) return addresses.status();
  const std::string endpoint = Endpoint((*addresses)[attempt % addresses->size()], port);
  auto impl = SocketImpl::Open(context, ZMQ_DEALER, options);
  if (!impl.ok()) return impl.status();
  // Watched first, so that no event is missed.
  const Status watched =
      (*impl)->Watch(context, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED);
  if (!watched.ok()) return watched;
  if (zmq_connect((*impl)->handle(), endpoint.c_str()) != 0) {
    return Status(Code::kAddress,
                  Cat("cannot connect to ", ToString(Address{host, port}), ": ", ZmqError()));
  }
  return std::unique_ptr<DealerSocket>(new DealerSocket(std::move(*impl)));
}

DealerSocket::DealerSocket(std::unique_ptr<SocketImpl> impl) : impl_(std::move(impl)) {}

DealerSocket::~DealerSocket() = default;

DealerSocket::Link DealerSocket::link() {
  while (const int event = impl_->NextEvent()) {
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      link_ = Link::kUp;
    } else if (event == ZMQ_EVENT_DISCONNECTED && link_ == Link::kUp) {
      link_ = Link::kLost;
      impl_->StopWatching();
    }
  }
  return link_;
}

SendResult DealerSocket::Send(const pb::Envelope& envelope, const Bytes& payload) {
  const auto unreachable = [](const char* why) {
    return SendResult{Sent::kUnreachable, Status(Code::kPeerLost, why)};
  };
  // libzmq would send it on the next connection, perhaps to a restarted server.
  if (link() == Link::kLost) return unreachable("the connection to the server was lost");
  SendResult result = impl_->Send(nullptr, envelope, payload);
  if (result.outcome == Sent::kFull && link() != Link::kUp) {
    return unreachable("there is no connection to the server");
  }
  return result;
}

std::optional<Received> DealerSocket::Receive() {
  link();
  return impl_->Receive(nullptr);
}

void DealerSocket::CloseAfterFlush() { impl_->Close(kFlushTimeMs); }

}  // namespace tern::net
