#include "server/lane_loop.h"

#include <string>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/logging.h"
#include "common/base/stack_trace.h"
#include "common/base/text.h"
#include "setup/socket_limits.h"

namespace tern::server {

Result<std::unique_ptr<LaneLoop>> LaneLoop::Start(const setup::Setup& setup, uint32_t shard,
                                                  uint32_t lane, uint64_t incarnation,
                                                  const std::string& host, uint16_t port,
                                                  net::Context& context, net::SocketOptions options,
                                                  Registry* registry,
                                                  std::span<const float> initial) {
  options.max_payload_bytes = setup::MaxPayloadBytes(setup, lane);
  auto socket = net::RouterSocket::Bind(context, host, port, options);
  if (!socket.ok()) return socket.status().Within(Cat("data socket ", lane));
  auto data_lane = DataLane::Make(setup, shard, lane,
                                  DataLane::OptionsOf(setup, shard, lane, incarnation), initial);
  if (!data_lane.ok()) return data_lane.status();
  std::unique_ptr<LaneLoop> lane_loop(
      new LaneLoop(lane, setup.plan.workers, std::move(*data_lane), std::move(*socket), registry));
  lane_loop->thread_ =
      Thread(Cat("lane", lane), [this_loop = lane_loop.get()] { this_loop->Run(); });
  return lane_loop;
}

LaneLoop::LaneLoop(uint32_t lane, uint32_t workers, std::unique_ptr<DataLane> data_lane,
                   std::unique_ptr<net::RouterSocket> socket, Registry* registry)
    : lane_number_(lane),
      socket_(std::move(socket)),
      data_lane_(std::move(data_lane)),
      sum_time_(registry->GetTimeCounter("tern_server_sum_seconds_total",
                                         "Time in adding up and answering",
                                         {{"lane", std::to_string(lane)}})),
      unsent_answers_(registry->GetCounter(
          "tern_server_unsent_total", "Answers that could not be sent because the peer was gone",
          {{"lane", std::to_string(lane)}})),
      checkpoint_failures_(registry->GetCounter("tern_server_checkpoint_failures_total",
                                                "Checkpoints that could not be written",
                                                {{"lane", std::to_string(lane)}})),
      lane_counters_(*registry, lane),
      trace_(workers),
      round_times_(*registry),
      door_(*registry, lane),
      answer_limit_(*registry, lane, [this](net::PeerId peer) { socket_->Disconnect(peer); }) {}

LaneLoop::~LaneLoop() { (void)Finish(); }

Status LaneLoop::Finish() {
  commands_.Close();
  thread_.Join();
  const MutexLock lock(mutex_);
  return finish_status_;
}

void LaneLoop::Run() {
  const TraceThread trace_thread(Cat("lane ", lane_number_));
  const Status status = Serve();
  const Status finish_status = data_lane_->Finish(last_checkpoint_step_);
  socket_->CloseAfterFlush();
  const MutexLock lock(mutex_);
  serve_status_ = status;
  finish_status_ = finish_status;
}

Status LaneLoop::CheckThread(Time timeout, Time patience, Time now) {
  TERN_RETURN_IF_ERROR(data_lane_->failure());
  {
    const MutexLock lock(mutex_);
    TERN_RETURN_IF_ERROR(serve_status_);
  }
  stands_still_ = watch_.Observe(num_turns_, false, now);
  const std::string sentence = Cat("the thread of lane ", lane_number_, " has not moved for ",
                                   protocol::SecondsText(stands_still_));
  if (watch_.MustLog(timeout, now))
    LOG(ERROR) << sentence << ": " << StackOfThread(thread_.handle());
  hangs_ = stands_still_ > timeout + patience;
  return hangs_ ? Status(Code::kPeerLost, sentence) : Ok();
}

Status LaneLoop::Serve() {
  net::Poller poller;
  poller.Add(socket_.get());
  poller.AddFd(commands_.event_fd());
  while (!commands_.drained()) {
    TERN_RETURN_IF_ERROR(poller.Wait(std::chrono::seconds(1)));
    HitFailpoint(FailPlace::kThreadLane);
    ++num_turns_;
    protocol::Sends sends;
    while (auto command = commands_.TryPop()) OnCommand(*command, &sends);
    SendAll(std::move(sends), {});
    // A batch is limited, so that commands do not wait long.
    for (int num_messages = 0; num_messages < 256; ++num_messages) {
      const Time receive_begin = TraceBegin();
      std::optional<net::ReceivedMessage> received = socket_->Receive();
      if (!received.has_value()) break;
      trace_.OnReceived(receive_begin, received->envelope);
      protocol::Sends answers;
      {
        TimeScope time(sum_time_);
        const TraceSpan span("sum", trace_.args());
        OnReceived(std::move(*received), &answers);
      }
      SendAll(std::move(answers), trace_.args());
      ++num_turns_;
    }
    AfterMessages();
  }
  return Ok();
}

void LaneLoop::OnCommand(const LaneCommand& command, protocol::Sends* sends) {
  if (const auto* members = std::get_if<pb::Members>(&command)) {
    data_lane_->OnMembers(*members, sends);
  } else if (const auto* last = std::get_if<LastCheckpoint>(&command)) {
    last_checkpoint_step_ = last->step;
  } else if (std::holds_alternative<CheckpointSoon>(command)) {
    data_lane_->RequestCheckpoint();
  } else {
    data_lane_->Stop(sends);
  }
}

void LaneLoop::AfterMessages() {
  data_lane_->AfterMessages();
  const CentralLane* const central_lane = data_lane_->central();
  if (central_lane != nullptr && central_lane->clock_lane() != nullptr) {
    const protocol::ClockLane& clock_lane = *central_lane->clock_lane();
    lane_counters_.ExportDropped(clock_lane.dropped());
    if (clock_lane.lost_clocks() > reported_lost_clocks_) {
      reported_lost_clocks_ = clock_lane.lost_clocks();
      LOG(WARNING) << "lane " << lane_number_ << " went back by up to " << reported_lost_clocks_
                   << " pushes per worker; it now has " << clock_lane.total()
                   << " pushes of all workers";
    }
  }
  lane_counters_.Export(data_lane_->lane());
  if (lane_number_ == 1) round_times_.Update(data_lane_->lane().floor(), Now());
  checkpoint_failures_.Add(data_lane_->NumFailedCheckpoints() - checkpoint_failures_.value());
}

void LaneLoop::OnReceived(net::ReceivedMessage received, protocol::Sends* sends) {
  if (received.error.has_value()) {
    sends->push_back({received.peer, frame_refusals_.Answer(*received.error, Now())});
    return;
  }
  if (!door_.LetsIn(received)) {
    if (auto answer = door_.AnswerTo(received)) sends->push_back({received.peer, *answer});
    return;
  }
  data_lane_->OnMessage(received.peer, {std::move(received.envelope), std::move(received.payload)},
                        sends);
}

void LaneLoop::SendAll(protocol::Sends sends, const TraceArgs& about) {
  if (sends.empty()) return;
  const TraceSpan span("send", about);
  for (const protocol::Send& send : sends) {
    // Strangers get nothing but refusals, and members get few, except those that say `again`.
    const pb::Envelope& head = send.message.head;
    const bool is_limited = head.has_refuse() && head.refuse().then() != pb::Refuse::again;
    if (is_limited && !answer_limit_.MayAnswer(send.to, Now())) continue;
    // If the peer is not connected, the answer may be lost: after connecting again, the peer
    // repeats the messages that have no answer.
    if (!socket_->Send(send.to, send.message.head, send.message.payload).ok())
      unsent_answers_.Add();
  }
}

}  // namespace tern::server
