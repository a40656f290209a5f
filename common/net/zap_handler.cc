#include "common/net/zap_handler.h"

#include <zmq.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/net/connections.h"
#include "common/net/keys.h"
#include "common/net/origin.h"
#include "common/net/socket_impl.h"

namespace tern::net {
namespace {

constexpr const char* kEndpoint = "inproc://zeromq.zap.01";
constexpr const char* kVersion = "1.0";
constexpr const char* kDomainWithoutKeys = "tern";
// The frames of a request, in their order (RFC 27); credentials follow.
enum RequestFrame : size_t {
  kVersionFrame,
  kIdFrame,
  kDomainFrame,
  kAddressFrame,
  kRoutingIdFrame,
  kMechanismFrame,
  kNumFrames
};
constexpr size_t kMaxFrames = 16;
constexpr Time kDenialLogInterval = std::chrono::seconds(1);

// One property, as ZMTP encodes it: a byte for the length of the name, the name, four bytes for the
// length of the value (the highest first), the value. REQUIRES both are shorter than 256 bytes.
std::string Property(const std::string& name, const std::string& value) {
  std::string property(1, static_cast<char>(name.size()));
  property += name + std::string(3, '\0');
  property += static_cast<char>(value.size());
  return property + value;
}

// Receives all frames of a request; none if there is no request. Drops surplus frames.
Result<std::vector<std::string>> ReceiveRequest(void* socket) {
  std::vector<std::string> frames;
  for (bool has_more = true; has_more;) {
    Frame frame;
    if (zmq_msg_recv(frame.get(), socket, ZMQ_DONTWAIT) < 0) {
      if (zmq_errno() == EINTR) continue;
      if (zmq_errno() == EAGAIN) break;
      return Status(Code::kInternal, Cat("receiving failed: ", ZmqError()));
    }
    has_more = frame.has_more();
    if (frames.size() < kMaxFrames)
      frames.emplace_back(reinterpret_cast<const char*>(frame.span().data()), frame.size());
  }
  return frames;
}

Status SendAnswer(void* socket, const std::array<std::string, 6>& frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int flags = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
    while (zmq_send(socket, frames[i].data(), frames[i].size(), flags) < 0) {
      if (zmq_errno() != EINTR)
        return Status(Code::kInternal, Cat("answering failed: ", ZmqError()));
    }
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<ZapHandler>> ZapHandler::Start(Context& context, const Options& options) {
  if (HasKeys(options.security) && options.security->domain.empty())
    return Status(Code::kInternal, "the keys of the job have no domain");
  void* socket = context.handle() == nullptr ? nullptr : zmq_socket(context.handle(), ZMQ_REP);
  const int linger = 0;
  if (socket == nullptr || zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
      zmq_bind(socket, kEndpoint) != 0) {
    const Status status(Code::kInternal,
                        Cat("cannot open the socket that admits connections: ", ZmqError()));
    if (socket != nullptr) zmq_close(socket);
    return status;
  }
  std::unique_ptr<ZapHandler> handler(new ZapHandler(socket, options));
  if (handler->wake_up_.fd() < 0) {
    return Status(Code::kInternal,
                  "out of file descriptors; raise the limit of open files "
                  "(ulimit -n)");
  }
  handler->thread_ = Thread("zap", [this_handler = handler.get()] { this_handler->Run(); });
  return handler;
}

ZapHandler::ZapHandler(void* socket, const Options& options)
    : socket_(socket),
      has_keys_(HasKeys(options.security)),
      domain_(has_keys_ ? options.security->domain : kDomainWithoutKeys),
      max_connections_per_address_(options.max_connections_per_address),
      networks_(options.networks),
      connections_(std::make_unique<Connections>(
          *options.registry, has_keys_,
          max_connections_per_address_ + options.max_surplus_per_address, options.pacing)) {
  options.registry
      ->GetGauge("tern_security", "1 for the mechanism by which daemons know each other.",
                 {{"mechanism", has_keys_ ? "curve" : "null"}})
      .Set(1);
  if (has_keys_) SetAllowed(options.security->allowed);
}

ZapHandler::~ZapHandler() {
  must_stop_ = true;
  wake_up_.Raise();
  thread_.Join();
  zmq_close(socket_);
  const MutexLock lock(mutex_);
  for (void* monitor : new_monitors_) zmq_close(monitor);
}

void ZapHandler::SetAllowed(AllowList allowed) {
  const MutexLock lock(mutex_);
  allowed_ = std::move(allowed);
}

bool ZapHandler::Allows(const PublicKey& key, const Principal& principal) const {
  return OwnerOf(key) == principal;
}

Status ZapHandler::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

Status ZapHandler::Watch(Context& context, void* handle) {
  Result<void*> monitor = OpenMonitor(context, handle, Connections::kEvents);
  if (!monitor.ok()) return monitor.status();
  {
    const MutexLock lock(mutex_);
    new_monitors_.push_back(*monitor);
  }
  wake_up_.Raise();
  return Ok();
}

void ZapHandler::Run() {
  Status status;
  while (!must_stop_ && status.ok()) status = Turn();
  if (status.ok()) return;
  LOG(ERROR) << "nobody can connect any more: " << status.message();
  zmq_unbind(socket_, kEndpoint);  // libzmq refuses from now on, instead of waiting for answers.
  {
    const MutexLock lock(mutex_);
    failure_ = status.Within("the thread that admits connections has ended");
  }
  // libzmq would wait for ever, with all connections, for somebody who takes the events.
  while (!must_stop_) {
    connections_->ReadEvents(Now());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Status ZapHandler::Turn() {
  std::vector<zmq_pollitem_t> items = {{socket_, 0, ZMQ_POLLIN, 0},
                                       {nullptr, wake_up_.fd(), ZMQ_POLLIN, 0}};
  for (void* monitor : connections_->monitors()) items.push_back({monitor, 0, ZMQ_POLLIN, 0});
  if (zmq_poll(items.data(), static_cast<int>(items.size()), -1) < 0 && zmq_errno() != EINTR)
    return Status(Code::kInternal, Cat("waiting for sockets failed: ", ZmqError()));
  wake_up_.Lower();
  {
    const MutexLock lock(mutex_);
    for (void* monitor : std::exchange(new_monitors_, {})) connections_->Add(monitor);
  }
  connections_->ReadEvents(Now());
  return AnswerRequests();
}

Status ZapHandler::AnswerRequests() {
  while (!must_stop_) {
    Result<std::vector<std::string>> request = ReceiveRequest(socket_);
    if (!request.ok()) return request.status();
    if (request->empty()) return Ok();
    connections_->ReadEvents(Now());  // The connection that asks is then counted.
    const Verdict verdict = Judge(*request);
    request->resize(std::max<size_t>(request->size(), kNumFrames));
    TERN_RETURN_IF_ERROR(SendAnswer(socket_, {kVersion, (*request)[kIdFrame], verdict.code,
                                              verdict.text, verdict.user_id, verdict.metadata}));
  }
  return Ok();
}

// Every refusal is 400: libzmq tells the peer, which may then say why it ends. With 300, the peer
// would not be told.
ZapHandler::Verdict ZapHandler::Judge(const std::vector<std::string>& request) {
  const Verdict denied{"400", "denied", "", ""};
  const size_t num_frames = kNumFrames + (has_keys_ ? 1 : 0);
  if (request.size() != num_frames || request[kVersionFrame] != kVersion ||
      request[kDomainFrame] != domain_ ||
      request[kMechanismFrame] != (has_keys_ ? "CURVE" : "NULL")) {
    LOG(ERROR) << "libzmq asks about a connection in an unknown way; the connection is denied";
    return denied;
  }
  const std::string& address = request[kAddressFrame];
  if (!has_keys_) {
    const std::string why = WhyDenied(address);
    if (why.empty()) return {"200", "OK", "", ""};
    LogDenial(address, why);
    return denied;
  }
  PublicKey key;
  const std::string& key_bytes = request[kNumFrames];
  if (key_bytes.size() != key.size()) return denied;
  std::copy(key_bytes.begin(), key_bytes.end(), key.begin());
  if (const std::optional<Principal> principal = OwnerOf(key); principal.has_value())
    return {"200", "OK", ToString(*principal), Property(kKeyProperty, ToText(key))};
  LogDenial(address, Cat("its key ", ToText(key), " is not in the list of allowed keys"));
  return denied;
}

std::string ZapHandler::WhyDenied(const std::string& address) const {
  const bool is_allowed = networks_.empty() || std::any_of(networks_.begin(), networks_.end(),
                                                           [&](const IpNetwork& network) {
                                                             return network.Contains(address);
                                                           });
  if (!is_allowed) return "it is in no network of the job's list `allow`";
  const size_t num_connections = connections_->NumFrom(OriginOf(address));
  if (num_connections <= max_connections_per_address_) return "";
  return Cat("it has ", num_connections, " connections; at most ", max_connections_per_address_,
             " are allowed without keys");
}

std::optional<Principal> ZapHandler::OwnerOf(const PublicKey& key) const {
  const MutexLock lock(mutex_);
  const auto found = allowed_.find(key);
  return found == allowed_.end() ? std::nullopt : std::optional(found->second);
}

void ZapHandler::LogDenial(const std::string& address, const std::string& reason) {
  ++num_unlogged_denials_;
  const Time now = Now();
  if (denial_logged_at_ != Time{} && now - denial_logged_at_ < kDenialLogInterval) return;
  denial_logged_at_ = now;
  const uint64_t num_others = std::exchange(num_unlogged_denials_, 0) - 1;
  constexpr std::string_view kIpv4AsIpv6 = "::ffff:";
  const bool is_ipv4 = address.starts_with(kIpv4AsIpv6) && address.find('.') != std::string::npos;
  LOG(WARNING) << "denied a connection from "
               << Printable(is_ipv4 ? address.substr(kIpv4AsIpv6.size()) : address) << ": "
               << reason << (num_others == 0 ? "" : Cat("; and ", num_others, " others before"));
}

}  // namespace tern::net
