// What SocketImpl does with the monitors of libzmq's sockets.
#include <zmq.h>

#include <atomic>
#include <cstring>

#include "common/base/text.h"
#include "common/net/socket_impl.h"
#include "common/net/zap_handler.h"

namespace tern::net {

Result<void*> OpenMonitor(Context& context, void* handle, int events) {
  static std::atomic<uint64_t> num_monitors{0};
  const std::string endpoint = "inproc://monitor-" + std::to_string(++num_monitors);
  void* monitor = zmq_socket(context.handle(), ZMQ_PAIR);
  const int linger = 0;
  if (monitor != nullptr && zmq_socket_monitor(handle, endpoint.c_str(), events) == 0 &&
      zmq_setsockopt(monitor, ZMQ_LINGER, &linger, sizeof linger) == 0 &&
      zmq_connect(monitor, endpoint.c_str()) == 0)
    return monitor;
  const Status status(Code::kInternal, Cat("cannot monitor a connection: ", ZmqError(),
                                           "; raise the limit of open files (ulimit -n)"));
  zmq_socket_monitor(handle, nullptr, 0);
  if (monitor != nullptr) zmq_close(monitor);
  return status;
}

MonitorEvent ReadMonitorEvent(void* monitor) {
  Frame event, endpoint;
  int received_bytes;
  do {
    received_bytes = zmq_msg_recv(event.get(), monitor, ZMQ_DONTWAIT);
  } while (received_bytes < 0 && zmq_errno() == EINTR);
  MonitorEvent read;
  uint16_t event_number = 0;
  if (received_bytes < static_cast<int>(sizeof event_number + sizeof read.value)) return read;
  if (event.has_more()) zmq_msg_recv(endpoint.get(), monitor, ZMQ_DONTWAIT);
  std::memcpy(&event_number, event.span().data(), sizeof event_number);
  std::memcpy(&read.value, event.span().data() + sizeof event_number, sizeof read.value);
  read.event = event_number;
  return read;
}

Status SocketImpl::StartMonitor(Context& context, int events) {
  Result<void*> monitor = OpenMonitor(context, handle_, events);
  if (!monitor.ok()) return monitor.status();
  monitor_ = *monitor;
  return Ok();
}

MonitorEvent SocketImpl::NextEvent() {
  return monitor_ == nullptr ? MonitorEvent() : ReadMonitorEvent(monitor_);
}

void SocketImpl::StopMonitor() {
  if (monitor_ == nullptr) return;
  if (handle_ != nullptr) zmq_socket_monitor(handle_, nullptr, 0);
  zmq_close(monitor_);
  monitor_ = nullptr;
}

Status SocketImpl::ReportTo(Context& context, ZapHandler* zap_handler) {
  TERN_RETURN_IF_ERROR(zap_handler->Watch(context, handle_));
  is_watched_ = true;
  return Ok();
}

void SocketImpl::Close(int linger_ms) {
  StopMonitor();
  if (handle_ == nullptr) return;
  // A socket that lingers must not report to a ZapHandler that may end before it.
  if (is_watched_) zmq_socket_monitor(handle_, nullptr, 0);
  zmq_setsockopt(handle_, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
  zmq_close(handle_);
  handle_ = nullptr;
}

}  // namespace tern::net
