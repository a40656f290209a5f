#include "server/tensor_wait.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/base/counters.h"
#include "common/base/logging.h"
#include "common/base/rate_limit.h"
#include "common/base/text.h"
#include "common/config/key_digests.h"
#include "common/net/poller.h"
#include "common/net/socket.h"
#include "common/net/zap_handler.h"
#include "common/protocol/members/control.h"
#include "server/answer_limit.h"
#include "server/bind_address.h"
#include "server/control_options.h"
#include "server/door.h"
#include "server/frame_refusals.h"
#include "setup/first_weights.h"
#include "setup/kept_memory.h"
#include "setup/socket_limits.h"

namespace tern::server {
namespace {

// How many messages are read before the next look at signals and the time.
constexpr int kMaxMessages = 256;

class TensorWait {
 public:
  TensorWait(const setup::Setup& setup, uint32_t shard, std::optional<uint64_t> room)
      : setup_(setup),
        shard_(shard),
        room_(room),
        door_(registry_, 0),
        answer_limit_(registry_, 0, [this](net::PeerId peer) { socket_->Disconnect(peer); }) {}

  Status Bind(StopSignals& signals) {
    const Result<net::Address> address = AwaitBindAddress(setup_, shard_, signals);
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
      for (int num_messages = 0; num_messages < kMaxMessages; ++num_messages) {
        const auto received = socket_->Receive();
        if (!received.has_value()) break;
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
    if (received.error.has_value()) {
      Answer(received.peer, frame_refusals_.Answer(*received.error, Now()));
      return std::nullopt;
    }
    if (!door_.LetsIn(received)) {
      if (const auto answer = Door::AnswerTo(received)) Answer(received.peer, *answer);
      return std::nullopt;
    }
    if (!received.envelope.has_hello()) return std::nullopt;
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
    if (status.ok()) status = Check(tensors);
    if (status.ok()) return tensors;
    if (log_limiter_.Allow(Now()))
      LOG(WARNING) << "refused worker " << hello.rank() << ": " << status.message() << " "
                   << for_log;
    Answer(received.peer,
           protocol::MakeRefusal(status.code(), status.message(), pb::Refuse::leave));
    return std::nullopt;
  }

  // Whether the job could begin with these tensors here. A table that could not must not reach the
  // server, which would end with it: whoever sent it may be no worker of the job's user.
  Status Check(const pb::TensorTable& tensors) const {
    setup::Setup trial;
    trial.job = setup_.job;
    TERN_RETURN_IF_ERROR(setup::SetTensors(tensors, &trial));
    TERN_RETURN_IF_ERROR(setup::CheckKeptBytes(trial, shard_, room_));
    return setup::ReadGivenWeights(&trial);
  }

  void Answer(net::PeerId peer, const protocol::Message& message) {
    if (answer_limit_.MayAnswer(peer, Now())) (void)socket_->Send(peer, message.head);
  }

  const setup::Setup& setup_;
  const uint32_t shard_;
  const std::optional<uint64_t> room_;
  Registry registry_;
  net::Context context_;
  std::unique_ptr<net::ZapHandler> zap_handler_;  // outlives the socket
  std::unique_ptr<net::RouterSocket> socket_;
  Door door_;
  FrameRefusals frame_refusals_;
  AnswerLimit answer_limit_;
  RateLimiter log_limiter_{3, std::chrono::seconds(1)};
};

}  // namespace

Result<pb::TensorTable> AwaitTensors(const setup::Setup& setup, uint32_t shard,
                                     std::optional<uint64_t> room, StopSignals& signals) {
  TensorWait wait(setup, shard, room);
  TERN_RETURN_IF_ERROR(wait.Bind(signals));
  LogInfo("waits for the first client, which says what tensors the job has", Print::kYes);
  return wait.Await(signals);
}

}  // namespace tern::server
