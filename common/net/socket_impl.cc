#include "common/net/socket_impl.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::net {
namespace {

constexpr int kOneDayMs = 24 * 3600 * 1000;

// The results of Send after a failure. libzmq has other error codes, but only a bug in Tern could
// cause them.
SendResult Unreachable() {
  return {Sent::kUnreachable, Status(Code::kPeerLost, "the peer is not connected any more")};
}
SendResult Full() {
  return {Sent::kFull, Status(Code::kPeerLost, "the peer does not take messages fast enough")};
}
SendResult Refused(const std::string& why) {
  return {Sent::kRefused, Status(Code::kInternal, why)};
}

// The release callback of a zero-copy message; libzmq calls it on an I/O thread.
void DropBytes(void*, void* hint) { delete static_cast<Bytes*>(hint); }

// Initializes *message with the payload. Returns 0, or -1 with errno ENOMEM.
int MakePayload(const Bytes& payload, zmq_msg_t* message) {
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
  const bool v6 = host.find(':') != std::string::npos;
  std::string endpoint = v6 ? "tcp://[" : "tcp://";
  return endpoint.append(host).append(v6 ? "]:" : ":").append(std::to_string(port));
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
  return socket;
}

SocketImpl::~SocketImpl() { Close(0); }

Status SocketImpl::SetOptions(int type) {
  struct Option {
    int name, value;
  };
  const std::array common = {
      Option{ZMQ_LINGER, 0},
      Option{ZMQ_SNDHWM, options_.high_water_mark},
      Option{ZMQ_RCVHWM, options_.high_water_mark},
      Option{ZMQ_HANDSHAKE_IVL, 3000},
      Option{ZMQ_IPV6, 1},
      Option{ZMQ_TCP_KEEPALIVE, 1},
      Option{ZMQ_TCP_KEEPALIVE_IDLE, 5},
      Option{ZMQ_TCP_KEEPALIVE_INTVL, 2},
      Option{ZMQ_TCP_KEEPALIVE_CNT, 3},
  };
  const std::array router = {Option{ZMQ_ROUTER_MANDATORY, 1}, Option{ZMQ_ROUTER_HANDOVER, 0}};
  // ZMQ_IMMEDIATE 1 would drop received messages that are still unread when the connection ends.
  // With 0, libzmq would send queued messages after it reconnects. So the long reconnect interval
  // keeps libzmq from reconnecting: DealerSocket sends only while connected, and reconnects itself.
  // The connect timeout limits the delay after a lost first packet, which would otherwise be a
  // minute.
  const std::array dealer = {Option{ZMQ_IMMEDIATE, 0}, Option{ZMQ_RECONNECT_IVL, kOneDayMs},
                             Option{ZMQ_CONNECT_TIMEOUT, 3000}};
  bool ok = true;
  const auto set = [&](const Option& o) {
    ok = ok && zmq_setsockopt(handle_, o.name, &o.value, sizeof o.value) == 0;
  };
  std::for_each(common.begin(), common.end(), set);
  const auto max_frame = static_cast<int64_t>(std::max(options_.max_payload, kMaxHeaderBytes));
  ok = ok && zmq_setsockopt(handle_, ZMQ_MAXMSGSIZE, &max_frame, sizeof max_frame) == 0;
  if (type == ZMQ_ROUTER) {
    std::for_each(router.begin(), router.end(), set);
  } else {
    std::for_each(dealer.begin(), dealer.end(), set);
    const auto id = RandomRoutingId();
    ok = ok && zmq_setsockopt(handle_, ZMQ_ROUTING_ID, id.data(), id.size()) == 0;
  }
  return ok ? Ok() : Status(Code::kInternal, Cat("cannot set a socket option: ", ZmqError()));
}

Status SocketImpl::StartMonitor(Context& context, int events) {
  static std::atomic<uint64_t> number{0};
  const std::string endpoint = "inproc://monitor-" + std::to_string(++number);
  monitor_ = zmq_socket(context.handle(), ZMQ_PAIR);
  const int linger = 0;
  if (monitor_ == nullptr || zmq_socket_monitor(handle_, endpoint.c_str(), events) != 0 ||
      zmq_setsockopt(monitor_, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
      zmq_connect(monitor_, endpoint.c_str()) != 0) {
    return Status(Code::kInternal, Cat("cannot monitor a connection: ", ZmqError(),
                                       "; raise the limit of open files (ulimit -n)"));
  }
  return Ok();
}

int SocketImpl::NextEvent() {
  if (monitor_ == nullptr) return 0;
  Frame event, endpoint;
  int rc;
  do {
    rc = zmq_msg_recv(event.get(), monitor_, ZMQ_DONTWAIT);
  } while (rc < 0 && zmq_errno() == EINTR);
  if (rc < 2) return 0;
  if (event.more()) zmq_msg_recv(endpoint.get(), monitor_, ZMQ_DONTWAIT);
  uint16_t number = 0;
  std::memcpy(&number, event.span().data(), sizeof number);
  return number;
}

void SocketImpl::StopMonitor() {
  if (monitor_ == nullptr) return;
  if (handle_ != nullptr) zmq_socket_monitor(handle_, nullptr, 0);
  zmq_close(monitor_);
  monitor_ = nullptr;
}

void SocketImpl::Close(int linger_ms) {
  StopMonitor();
  if (handle_ == nullptr) return;
  zmq_setsockopt(handle_, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  zmq_close(handle_);
  handle_ = nullptr;
}

int SocketImpl::SendFrame(const void* data, size_t size, int flags) {
  for (bool retried = false;;) {
    const int rc = zmq_send(handle_, data, size, flags | ZMQ_DONTWAIT);
    if (rc >= 0) return 0;
    if (zmq_errno() == EINTR) continue;
    if (retried || (zmq_errno() != EAGAIN && zmq_errno() != EHOSTUNREACH)) return -1;
    // zmq_send does not always process pending notices of the I/O thread (a new peer, free space in
    // a queue); reading ZMQ_EVENTS always does. So read it and try once more.
    const int error = zmq_errno();
    int events = 0;
    size_t length = sizeof events;
    zmq_getsockopt(handle_, ZMQ_EVENTS, &events, &length);
    errno = error;
    retried = true;
  }
}

SendResult SocketImpl::SendPayload(const Bytes& payload) {
  zmq_msg_t message;
  int rc = MakePayload(payload, &message);
  if (rc != 0) return Refused("no memory for a payload");
  do {
    rc = zmq_msg_send(&message, handle_, ZMQ_DONTWAIT);
  } while (rc < 0 && zmq_errno() == EINTR);
  if (rc >= 0) return {};
  const int error = zmq_errno();
  zmq_msg_close(&message);
  // The connection was lost between two frames; libzmq has discarded the first one.
  if (error == EAGAIN || error == EHOSTUNREACH) return Unreachable();
  return Refused(Cat(std::string("sending failed: "), zmq_strerror(error)));
}

SendResult SocketImpl::Send(const std::string* routing_id, const pb::Envelope& envelope,
                            const Bytes& payload) {
  if (handle_ == nullptr) return Refused("the socket is closed");
  if (payload.size() > options_.max_payload) {
    return Refused(Cat("cannot send a payload of ", payload.size(), " bytes; at most ",
                       options_.max_payload, " are allowed here"));
  }
  const Result<std::string> header = EncodeHeader(envelope);
  if (!header.ok()) return {Sent::kRefused, header.status()};
  const int more = payload.empty() ? 0 : ZMQ_SNDMORE;
  int rc = 0;
  if (routing_id != nullptr) rc = SendFrame(routing_id->data(), routing_id->size(), ZMQ_SNDMORE);
  if (rc == 0) rc = SendFrame(header->data(), header->size(), more);
  if (rc != 0) {
    if (zmq_errno() == EAGAIN) return Full();
    if (zmq_errno() == EHOSTUNREACH) return Unreachable();
    return Refused(Cat("sending failed: ", ZmqError()));
  }
  if (more != 0) {
    if (SendResult result = SendPayload(payload); !result.ok()) return result;
  }
  if (options_.traffic != nullptr) {
    const uint64_t bytes =
        WireBytes(header->size()) + (payload.empty() ? 0 : WireBytes(payload.size()));
    options_.traffic->Count(Direction::kOut, envelope.body_case(), bytes);
  }
  return {};
}

bool SocketImpl::ReceiveFrame(Frame* frame) {
  int rc;
  do {
    rc = zmq_msg_recv(frame->get(), handle_, ZMQ_DONTWAIT);
  } while (rc < 0 && zmq_errno() == EINTR);
  CHECK(rc >= 0 || zmq_errno() == EAGAIN) << "receiving failed: " << ZmqError();
  return rc >= 0;
}

std::optional<Received> SocketImpl::Receive(std::string* routing_id) {
  if (handle_ == nullptr) return std::nullopt;
  bool more = true;
  if (routing_id != nullptr) {
    Frame id;
    if (!ReceiveFrame(&id)) return std::nullopt;
    routing_id->assign(reinterpret_cast<const char*>(id.span().data()), id.size());
    more = id.more();
  }
  Received received;
  Frame header;
  auto payload = std::make_shared<Frame>();
  size_t frames = 0;
  // libzmq delivers messages atomically: if the first frame is here, all others are.
  for (Frame rest; more; ++frames) {
    Frame* frame = frames == 0 ? &header : frames == 1 ? payload.get() : &rest;
    if (!ReceiveFrame(frame)) break;
    received.wire_bytes += WireBytes(frame->size());
    more = frame->more();
  }
  if (frames == 0 && routing_id == nullptr) return std::nullopt;
  received.error = CheckShape(frames, payload->size(), options_.max_payload);
  if (!received.error) received.error = DecodeHeader(header.span(), &received.envelope);
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
