// A wrapper of a ZeroMQ socket that sets Tern's options and sends and receives messages. Only for
// the .cc files of common/net.
#pragma once

#include <zmq.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/bytes.h"
#include "common/net/peer_map.h"
#include "common/net/socket.h"

namespace tern::net {

// One received frame.
class Frame {
 public:
  Frame() { zmq_msg_init(&message_); }
  ~Frame() { zmq_msg_close(&message_); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  zmq_msg_t* get() { return &message_; }
  size_t size() const { return zmq_msg_size(&message_); }
  bool has_more() const { return zmq_msg_more(&message_) != 0; }
  std::span<const uint8_t> span() {
    return {static_cast<const uint8_t*>(zmq_msg_data(&message_)), size()};
  }
  std::span<uint8_t> mutable_span() {
    return {static_cast<uint8_t*>(zmq_msg_data(&message_)), size()};
  }

 private:
  zmq_msg_t message_;
};

// An event of a monitor: the ZMQ_EVENT_... bit, and its value, for example a file descriptor.
struct MonitorEvent {
  int event = 0;  // 0: there is none
  int32_t value = 0;
};
// Makes libzmq report these ZMQ_EVENT_... of the socket `handle`, and returns the socket that
// receives them (ReadMonitorEvent). Whoever closes that socket first ends the reports, else libzmq
// waits for ever for somebody who takes them.
Result<void*> OpenMonitor(Context& context, void* handle, int events);
// The next event; never waits.
MonitorEvent ReadMonitorEvent(void* monitor);

// The metadata of a connection by which a ZapHandler tells a RouterSocket which key the peer
// has (ToText). The principal is in libzmq's own User-Id.
inline constexpr const char* kKeyProperty = "Tern-Key";

// Who has sent a message to a RouterSocket.
struct Sender {
  std::string routing_id;
  Credentials credentials;  // with kCurve only
};

// Reads the metadata of the first frame that follows the routing id; the routing id's own frame may
// have none. Without valid metadata there is no principal.
Credentials ReadCredentials(zmq_msg_t* message);

class SocketImpl {
 public:
  // `type` is ZMQ_ROUTER or ZMQ_DEALER. kInternal: libzmq cannot open the socket (the process is
  // out of sockets), or cannot set an option. kBadJob: the keys of `options` cannot be used.
  static Result<std::unique_ptr<SocketImpl>> Open(Context& context, int type,
                                                  const SocketOptions& options);
  ~SocketImpl();

  void* handle() const { return handle_; }  // null after Close()
  bool has_keys() const { return HasKeys(options_.security); }
  const Pacing& pacing() const { return options_.pacing; }
  void* monitor() const { return monitor_; }  // null if not monitored

  // Starts to monitor the socket's connections. `events`: the ZMQ_EVENT_... bits to report. Call
  // before zmq_connect.
  Status StartMonitor(Context& context, int events);
  // The next event of the monitor; never waits.
  MonitorEvent NextEvent();
  void StopMonitor();
  // Lets the ZapHandler of the options see the connections of this socket, until it is closed.
  Status ReportTo(Context& context, ZapHandler* zap_handler);

  // With kCurve: the next zmq_connect takes only a server with this key of the shard (their number,
  // modulo their count).
  Status PinServerKey(size_t number);

  // Sends a message. `routing_id`: the receiver's; null for a dealer. Returns kFull if libzmq sets
  // errno to EAGAIN: the queue is full or, only for a dealer, there is no connection.
  SendResult Send(const std::string* routing_id, const pb::Envelope& envelope,
                  const Bytes& payload);
  // Receives a message; nullopt if there is none. A dealer passes null.
  std::optional<ReceivedMessage> Receive(Sender* sender);
  void Close(int linger_ms);
  // Closes the connection of a router's peer. REQUIRES a libzmq with Tern's patches.
  void Disconnect(const std::string& routing_id);

 private:
  SocketImpl(void* handle, const SocketOptions& options) : handle_(handle), options_(options) {}
  Status SetOptions(int type);
  Status SetSecurity(int type);
  Status SetKey(int option, const uint8_t* key);
  int SendFrame(const void* data, size_t size, int flags);
  SendResult SendPayload(const Bytes& payload);
  // Returns false if no frame has arrived.
  bool ReceiveFrame(Frame* frame);

  void* handle_;
  void* monitor_ = nullptr;
  bool is_watched_ = false;  // a ZapHandler receives the events of this socket
  const SocketOptions options_;
};

// The text of zmq_errno().
std::string ZmqError();
// tcp://HOST:PORT for a numeric host, or "*".
std::string Endpoint(const std::string& host, uint16_t port);

}  // namespace tern::net
