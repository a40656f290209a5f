#include "server/lane_loop.h"

#include <string>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/cells.h"

namespace tern::server {

namespace {

protocol::Lane::Options LaneOptions(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                                    uint64_t incarnation,
                                    const std::optional<update::Schedule>* schedule) {
  protocol::Lane::Options options;
  options.workers = setup.plan.workers;
  options.incarnation = incarnation;
  if (shard == 0) {
    options.leads = lane == 1;
    // Round r makes update r - 1 of the schedule.
    options.learning_rate = [schedule](uint64_t round) {
      return schedule->has_value() ? (*schedule)->Rate(round - 1) : 0;
    };
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<LaneLoop>> LaneLoop::Start(const setup::Setup& setup, uint32_t shard,
                                                  uint32_t lane, uint64_t incarnation,
                                                  const std::string& host, uint16_t port,
                                                  net::Context& context, net::Traffic* traffic,
                                                  Registry* registry) {
  net::SocketOptions options;
  options.max_payload = setup::MaxPayload(setup, lane);
  options.high_water_mark = 100000;  // credits bound the bytes; the mark is never reached
  options.traffic = traffic;
  auto socket = net::RouterSocket::Bind(context, host, port, options);
  if (!socket.ok()) return socket.status().Within(Cat("data socket ", lane));
  std::unique_ptr<LaneLoop> loop(
      new LaneLoop(setup, shard, lane, incarnation, std::move(*socket), registry));
  loop->thread_ = Thread(Cat("lane", lane), [raw = loop.get()] { raw->Run(); });
  return loop;
}

LaneLoop::LaneLoop(const setup::Setup& setup, uint32_t shard, uint32_t lane, uint64_t incarnation,
                   std::unique_ptr<net::RouterSocket> socket, Registry* registry)
    : setup_(setup),
      shard_(shard),
      socket_(std::move(socket)),
      lane_(LaneOptions(setup, shard, lane, incarnation, &schedule_),
            protocol::CellsOfLane(setup.plan, shard, lane)),
      sum_time_(registry->GetTimeCounter("tern_server_sum_seconds_total",
                                         "Time in adding and answering",
                                         {{"lane", std::to_string(lane)}})),
      unsent_(registry->GetCounter("tern_server_unsent_total", "Answers to peers that were gone",
                                   {{"lane", std::to_string(lane)}})),
      counters_(*registry, lane) {}

LaneLoop::~LaneLoop() {
  commands_.Close();
  thread_.Join();
}

void LaneLoop::Run() {
  net::Poller poller;
  poller.Add(socket_.get());
  poller.AddFd(commands_.event_fd());
  while (!commands_.drained()) {
    if (Status waited = poller.Wait(std::chrono::seconds(1)); !waited.ok()) {
      LOG(ERROR) << waited.message();
      return;
    }
    protocol::Sends out;
    while (auto command = commands_.TryPop()) OnCommand(*command, &out);
    Carry(std::move(out));
    for (int batch = 0; batch < 256; ++batch) {  // then look at the commands again
      std::optional<net::Received> received = socket_->Receive();
      if (!received.has_value()) break;
      protocol::Sends answers;
      {
        TimeScope time(sum_time_);
        OnReceived(std::move(*received), &answers);
      }
      Carry(std::move(answers));
    }
    counters_.Export(lane_);
  }
  socket_->CloseAfterFlush();
}

void LaneLoop::OnCommand(const LaneCommand& command, protocol::Sends* out) {
  if (const auto* members = std::get_if<pb::Members>(&command)) {
    if (shard_ == 0 && !schedule_.has_value()) {
      auto schedule = update::Schedule::Make(setup_.job.train().schedule(), members->steps());
      if (schedule.ok()) schedule_ = std::move(*schedule);
    }
    lane_.OnMembers(*members, out);
  } else {
    lane_.OnStop();
  }
}

void LaneLoop::OnReceived(net::Received received, protocol::Sends* out) {
  if (received.error.has_value()) {
    LOG_EVERY_N(WARNING, 100) << "refused a frame: " << received.error->status.message();
    out->push_back(
        {received.peer, protocol::MakeRefuse(ExitCode(received.error->status),
                                             received.error->status.message(), pb::Refuse::leave)});
    return;
  }
  protocol::Message message{std::move(received.envelope), std::move(received.payload)};
  if (!message.head.has_hello()) return lane_.OnMessage(received.peer, message, out);
  if (Status checked = protocol::CheckHello(message.head.hello(), setup_.hello); !checked.ok()) {
    out->push_back({received.peer,
                    protocol::MakeRefuse(ExitCode(checked), checked.message(), pb::Refuse::leave)});
    return;
  }
  lane_.OnHello(received.peer, message.head.hello(), out);
}

void LaneLoop::Carry(protocol::Sends sends) {
  for (const protocol::Send& send : sends) {
    // A peer that is gone says hello again and repeats what it waits for.
    if (!socket_->Send(send.to, send.message.head, send.message.payload).ok()) unsent_.Add();
  }
}

}  // namespace tern::server
