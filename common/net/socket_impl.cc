#include "common/net/socket_impl.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/net/socket_faults.h"

namespace tern::net {
namespace {

constexpr int kOneDayMs = 24 * 3600 * 1000;

// The results of Send after a failure: the peer is gone, its queue is full, or (because of a bug in
// Tern or a lack of memory) the message cannot be sent at all.
SendResult UnreachableResult() {
  return {SendOutcome::kUnreachable, Status(Code::kPeerLost, "the peer is not connected any more")};
}
SendResult FullResult() {
  return {SendOutcome::kFull,
          Status(Code::kPeerLost, "the peer does not take messages fast enough")};
}
SendResult RefusedResult(const std::string& reason) {
  return {SendOutcome::kRefused, Status(Code::kInternal, reason)};
}

// The release callback of a zero-copy message; libzmq calls it on an I/O thread.
void DropBytes(void*, void* hint) { delete static_cast<Bytes*>(hint); }

// Initializes *message with the payload. Returns 0, or -1 with errno ENOMEM.
int InitMessage(const Bytes& payload, zmq_msg_t* message) {
  if (payload.size() < kZeroCopyBytes) {
    if (zmq_msg_init_size(message, payload.size()) != 0) return -1;
    std::memcpy(zmq_msg_data(message), payload.data(), payload.size());
    return 0;
  }
  auto owner = std::make_unique<Bytes>(payload);
  auto* data = const_cast<uint8_t*>(owner->data());  // libzmq does not write to it.
  if (zmq_msg_init_data(message, data, payload.size(), &DropBytes, owner.get()) != 0) return -1;
  owner.release();
  return 0;
}

// Random, so that no other socket can impersonate this peer. libzmq reserves ids that begin with 0.
std::array<unsigned char, 16> RandomRoutingId() {
  std::array<unsigned char, 16> id{};
  while (id[0] == 0) {
    CHECK_EQ(getrandom(id.data(), id.size(), 0), static_cast<ssize_t>(id.size()));
  }
  return id;
}

}  // namespace

std::string ZmqError() { return zmq_strerror(zmq_errno()); }

std::string Endpoint(const std::string& host, uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  std::string endpoint = is_ipv6 ? "tcp://[" : "tcp://";
  return endpoint.append(host).append(is_ipv6 ? "]:" : ":").append(std::to_string(port));
}

Context::Context(int io_threads) : handle_(zmq_ctx_new()) {
  if (handle_ != nullptr) zmq_ctx_set(handle_, ZMQ_IO_THREADS, io_threads);
}

Context::~Context() {
  while (handle_ != nullptr && zmq_ctx_term(handle_) != 0 && zmq_errno() == EINTR) {
  }
}

Result<std::unique_ptr<SocketImpl>> SocketImpl::Open(Context& context, int type,
                                                     const SocketOptions& options) {
  void* handle = context.handle() == nullptr ? nullptr : zmq_socket(context.handle(), type);
  if (handle == nullptr) {
    return Status(Code::kInternal, Cat("cannot create a socket: ", ZmqError(),
                                       "; raise the limit of open files (ulimit -n)"));
  }
  std::unique_ptr<SocketImpl> socket(new SocketImpl(handle, options));
  if (Status status = socket->SetOptions(type); !status.ok()) return status;
  if (Status status = socket->SetSecurity(type); !status.ok()) return status;
  return socket;
}

SocketImpl::~SocketImpl() { Close(0); }

Status SocketImpl::SetOptions(int type) {
  struct Option {
    int name, value;
  };
  const std::array common_options = {
      Option{ZMQ_LINGER, 0},
      Option{ZMQ_SNDHWM, options_.high_water_mark},
      Option{ZMQ_RCVHWM, std::min(options_.high_water_mark, options_.max_waiting)},
      Option{ZMQ_HANDSHAKE_IVL, 3000},
      Option{ZMQ_IPV6, 1},
      Option{ZMQ_TCP_KEEPALIVE, 1},
      Option{ZMQ_TCP_KEEPALIVE_IDLE, 5},
      Option{ZMQ_TCP_KEEPALIVE_INTVL, 2},
      Option{ZMQ_TCP_KEEPALIVE_CNT, 3},
  };
  // The backlog holds what comes while a listener pauses because a stranger connects all the time.
  const std::array router_options = {Option{ZMQ_ROUTER_MANDATORY, 1}, Option{ZMQ_BACKLOG, 1024},
                                     Option{ZMQ_ROUTER_HANDOVER, 0}};
  // ZMQ_IMMEDIATE 1 would drop received messages that are still unread when the connection ends.
  // With 0, libzmq would send queued messages after it reconnects. So the long reconnect interval
  // keeps libzmq from reconnecting: DealerSocket sends only while connected, and reconnects itself.
  // The connect timeout limits the delay after a lost first packet, which would otherwise be a
  // minute.
  const std::array dealer_options = {Option{ZMQ_IMMEDIATE, 0}, Option{ZMQ_RECONNECT_IVL, kOneDayMs},
                                     Option{ZMQ_CONNECT_TIMEOUT, 3000}};
  bool is_ok = true;
  const auto set_option = [&](const Option& option) {
    is_ok = is_ok && zmq_setsockopt(handle_, option.name, &option.value, sizeof option.value) == 0;
  };
  std::for_each(common_options.begin(), common_options.end(), set_option);
  const auto max_frame_bytes =
      static_cast<int64_t>(std::max(options_.max_payload_bytes, kMaxHeaderBytes));
  is_ok = is_ok &&
          zmq_setsockopt(handle_, ZMQ_MAXMSGSIZE, &max_frame_bytes, sizeof max_frame_bytes) == 0;
  if (type == ZMQ_ROUTER) {
    std::for_each(router_options.begin(), router_options.end(), set_option);
  } else {
    std::for_each(dealer_options.begin(), dealer_options.end(), set_option);
    const auto routing_id = RandomRoutingId();
    is_ok =
        is_ok && zmq_setsockopt(handle_, ZMQ_ROUTING_ID, routing_id.data(), routing_id.size()) == 0;
  }
  return is_ok ? Ok() : Status(Code::kInternal, Cat("cannot set a socket option: ", ZmqError()));
}

int SocketImpl::SendFrame(const void* data, size_t size, int flags) {
  for (bool has_retried = false;;) {
    const int sent_bytes = zmq_send(handle_, data, size, flags | ZMQ_DONTWAIT);
    if (sent_bytes >= 0) return 0;
    if (zmq_errno() == EINTR) continue;
    if (has_retried || (zmq_errno() != EAGAIN && zmq_errno() != EHOSTUNREACH)) return -1;
    // zmq_send does not always process pending notices of the I/O thread (a new peer, free space in
    // a queue); reading ZMQ_EVENTS always does. So read it and try once more.
    const int error = zmq_errno();
    int events = 0;
    size_t events_bytes = sizeof events;
    zmq_getsockopt(handle_, ZMQ_EVENTS, &events, &events_bytes);
    errno = error;
    has_retried = true;
  }
}

SendResult SocketImpl::SendPayload(const Bytes& payload) {
  zmq_msg_t message;
  int rc = InitMessage(payload, &message);
  if (rc != 0) return RefusedResult("no memory for a payload");
  do {
    rc = zmq_msg_send(&message, handle_, ZMQ_DONTWAIT);
  } while (rc < 0 && zmq_errno() == EINTR);
  if (rc >= 0) return {};
  const int error = zmq_errno();
  zmq_msg_close(&message);
  // These errors mean: the connection was lost between two frames, and libzmq has discarded the
  // first one.
  if (error == EAGAIN || error == EHOSTUNREACH) return UnreachableResult();
  return RefusedResult(Cat(std::string("sending failed: "), zmq_strerror(error)));
}

SendResult SocketImpl::Send(const std::string* routing_id, const pb::Envelope& envelope,
                            const Bytes& payload) {
  if (handle_ == nullptr) return RefusedResult("the socket is closed");
  if (payload.size() > options_.max_payload_bytes) {
    return RefusedResult(Cat("cannot send a payload of ", payload.size(), " bytes; at most ",
                             options_.max_payload_bytes, " are allowed here"));
  }
  const Result<std::string> header = EncodeHeader(envelope, payload.span());
  if (!header.ok()) return {SendOutcome::kRefused, header.status()};
  if (IsLostInSending()) return {};
  const int more_flag = payload.empty() ? 0 : ZMQ_SNDMORE;
  int error = 0;
  if (routing_id != nullptr) error = SendFrame(routing_id->data(), routing_id->size(), ZMQ_SNDMORE);
  if (error == 0) error = SendFrame(header->data(), header->size(), more_flag);
  if (error != 0) {
    if (zmq_errno() == EAGAIN) return FullResult();
    if (zmq_errno() == EHOSTUNREACH) return UnreachableResult();
    return RefusedResult(Cat("sending failed: ", ZmqError()));
  }
  if (more_flag != 0) {
    if (SendResult result = SendPayload(payload); !result.ok()) return result;
  }
  if (options_.traffic != nullptr) {
    const uint64_t wire_bytes =
        WireBytes(header->size()) + (payload.empty() ? 0 : WireBytes(payload.size()));
    options_.traffic->Count(Direction::kOut, envelope.body_case(), wire_bytes);
  }
  return {};
}

void SocketImpl::Disconnect(const std::string& routing_id) {
  if (handle_ == nullptr) return;
  // If it fails, the connection is closed already, or its queue is full and it is closed later.
  if (SendFrame(routing_id.data(), routing_id.size(), ZMQ_SNDMORE) == 0) SendFrame("", 0, 0);
}

bool SocketImpl::ReceiveFrame(Frame* frame) {
  int rc;
  do {
    rc = zmq_msg_recv(frame->get(), handle_, ZMQ_DONTWAIT);
  } while (rc < 0 && zmq_errno() == EINTR);
  CHECK(rc >= 0 || zmq_errno() == EAGAIN) << "receiving failed: " << ZmqError();
  return rc >= 0;
}

std::optional<ReceivedMessage> SocketImpl::Receive(Sender* sender) {
  if (handle_ == nullptr) return std::nullopt;
  bool has_more = true;
  if (sender != nullptr) {
    Frame id;
    if (!ReceiveFrame(&id)) return std::nullopt;
    sender->routing_id.assign(reinterpret_cast<const char*>(id.span().data()), id.size());
    has_more = id.has_more();
  }
  ReceivedMessage received;
  Frame header;
  auto payload = std::make_shared<Frame>();
  size_t num_frames = 0;
  // libzmq delivers messages atomically: if the first frame is here, all others are.
  for (Frame surplus_frame; has_more; ++num_frames) {
    Frame* frame = num_frames == 0 ? &header : num_frames == 1 ? payload.get() : &surplus_frame;
    if (!ReceiveFrame(frame)) break;
    received.wire_bytes += WireBytes(frame->size());
    has_more = frame->has_more();
  }
  if (num_frames == 0 && sender == nullptr) return std::nullopt;
  if (sender != nullptr && has_keys()) {
    sender->credentials = ReadCredentials(header.get());
    received.principal = sender->credentials.principal;
  }
  if (IsLostInReceiving(header.mutable_span(), payload->mutable_span())) return std::nullopt;
  received.error = CheckShape(num_frames, payload->size(), options_.max_payload_bytes);
  if (!received.error)
    received.error = DecodeHeader(header.span(), &received.envelope, payload->span());
  if (received.error) {
    received.envelope.Clear();
    if (options_.traffic) {
      options_.traffic->CountRefused(received.error->fault, received.wire_bytes);
    }
    return received;
  }
  if (payload->size() > 0) {
    const std::span<const uint8_t> bytes = payload->span();
    received.payload = Bytes::Share(bytes.data(), bytes.size(), [payload] {});
  }
  if (options_.traffic != nullptr) {
    options_.traffic->Count(Direction::kIn, received.envelope.body_case(), received.wire_bytes);
  }
  return received;
}

}  // namespace tern::net
