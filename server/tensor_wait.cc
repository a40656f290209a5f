#include "server/tensor_wait.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/counters.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/config/key_digests.h"
#include "common/net/poller.h"
#include "common/net/socket.h"
#include "common/net/zap_handler.h"
#include "common/protocol/members/control.h"
#include "models/graph/tensor_table.h"
#include "server/bind_address.h"
#include "server/control_options.h"
#include "server/door.h"
#include "setup/socket_limits.h"

namespace tern::server {
namespace {

class TensorWait {
 public:
  explicit TensorWait(const setup::Setup& setup) : setup_(setup), door_(registry_, 0) {}

  Status Bind(uint32_t shard, StopSignals& signals) {
    const Result<net::Address> address = AwaitBindAddress(setup_, shard, signals);
    if (!address.ok()) return address.status();
    auto zap_handler = net::ZapHandler::Start(
        context_, {setup_.security.get(), MaxConnectionsPerAddress(setup_.job),
                   AllowedNetworks(setup_.job), &registry_});
    if (!zap_handler.ok()) return zap_handler.status();
    zap_handler_ = std::move(*zap_handler);
    net::SocketOptions options;
    options.max_payload_bytes = setup::MaxPayloadBytes(setup_, 0);
    options.max_waiting = 16;
    options.security = setup_.security.get();
    options.zap_handler = zap_handler_.get();
    auto socket = net::RouterSocket::Bind(context_, address->host, address->port, options);
    if (!socket.ok()) return socket.status().Within("control socket");
    socket_ = std::move(*socket);
    return Ok();
  }

  Result<pb::TensorTable> Await(StopSignals& signals) {
    net::Poller poller;
    poller.Add(socket_.get());
    poller.AddFd(signals.fd());
    for (const Time end = Now() + setup_.timings.start_timeout; Now() < end;) {
      TERN_RETURN_IF_ERROR(poller.Wait(std::chrono::milliseconds(100)));
      if (signals.TakeSignal() != 0) return signals.status();
      while (const auto received = socket_->Receive()) {
        if (auto tensors = TensorsIn(*received)) return *std::move(tensors);
      }
    }
    return Status(
        Code::kPeerLost,
        Cat("no client has connected within ", protocol::SecondsText(setup_.timings.start_timeout),
            " (faults.start_timeout_s), so the tensors of the job are not known"));
  }

 private:
  // The table that a worker of this job has sent; nullopt if the message has none. A worker that is
  // not refused repeats its hello.
  std::optional<pb::TensorTable> TensorsIn(const net::ReceivedMessage& received) {
    if (received.error.has_value() || !received.envelope.has_hello() || !door_.LetsIn(received))
      return std::nullopt;
    pb::Hello hello = received.envelope.hello();
    if (hello.role() != pb::Hello::worker) return std::nullopt;
    hello.set_model_digest(setup_.hello.model_digest());  // This shard cannot know them yet.
    hello.set_plan_digest(setup_.hello.plan_digest());
    hello.set_weights_digest(setup_.hello.weights_digest());
    std::string for_log;
    Status status = protocol::CheckHello(hello, setup_.hello, config::SharedKeys(), &for_log);
    pb::TensorTable tensors;
    if (status.ok() &&
        !tensors.ParseFromArray(received.payload.data(), static_cast<int>(received.payload.size())))
      status = Status(Code::kMismatch, "the table of tensors in the peer's hello does not parse");
    if (status.ok()) status = models::TableOfTensors(tensors).status();
    if (status.ok()) return tensors;
    LOG(WARNING) << "refused worker " << hello.rank() << ": " << status.message() << " " << for_log;
    const protocol::Message refusal =
        protocol::MakeRefusal(status.code(), status.message(), pb::Refuse::leave);
    (void)socket_->Send(received.peer, refusal.head);
    return std::nullopt;
  }

  const setup::Setup& setup_;
  Registry registry_;
  net::Context context_;
  std::unique_ptr<net::ZapHandler> zap_handler_;  // outlives the socket
  std::unique_ptr<net::RouterSocket> socket_;
  Door door_;
};

}  // namespace

Result<pb::TensorTable> AwaitTensors(const setup::Setup& setup, uint32_t shard,
                                     StopSignals& signals) {
  TensorWait wait(setup);
  TERN_RETURN_IF_ERROR(wait.Bind(shard, signals));
  LogInfo("waits for the first client, which says what tensors the job has", Print::kYes);
  return wait.Await(signals);
}

}  // namespace tern::server
