#include "server/lane_loop.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "common/algorithm/elasticity.h"
#include "common/algorithm/facts.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"

namespace tern::server {

namespace {

protocol::RoundLane::Options LaneOptions(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                                         uint64_t incarnation, const Rate& rate) {
  protocol::RoundLane::Options options;
  options.workers = setup.plan.workers;
  options.incarnation = incarnation;
  options.window = algorithm::FactsOf(setup.job).window;
  const algorithm::Elasticity elasticity = algorithm::Elasticity::Of(setup.job);
  options.quorum = elasticity.quorum;
  options.shrink = elasticity.shrink();
  if (shard == 0) {
    options.leads = lane == 1;
    // Rounds count from 1, the schedule's steps from 0.
    options.learning_rate = [rate](uint64_t round) { return rate(round - 1); };
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<LaneLoop>> LaneLoop::Start(const setup::Setup& setup, uint32_t shard,
                                                  uint32_t lane, uint64_t incarnation,
                                                  const std::string& host, uint16_t port,
                                                  net::Context& context, net::Traffic* traffic,
                                                  Registry* registry,
                                                  std::span<const float> initial) {
  net::SocketOptions options;
  options.max_payload = setup::MaxPayload(setup, lane);
  options.high_water_mark = 100000;  // never reached, because credit limits the bytes in flight
  options.traffic = traffic;
  auto socket = net::RouterSocket::Bind(context, host, port, options);
  if (!socket.ok()) return socket.status().Within(Cat("data socket ", lane));
  std::unique_ptr<LaneLoop> loop(new LaneLoop(setup, shard, lane, std::move(*socket), registry));
  TERN_RETURN_IF_ERROR(loop->MakeLane(lane, incarnation, initial));
  loop->thread_ = Thread(Cat("lane", lane), [raw = loop.get()] { raw->Run(); });
  return loop;
}

LaneLoop::LaneLoop(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                   std::unique_ptr<net::RouterSocket> socket, Registry* registry)
    : setup_(setup),
      shard_(shard),
      lane_number_(lane),
      socket_(std::move(socket)),
      sum_time_(registry->GetTimeCounter("tern_server_sum_seconds_total",
                                         "Time in adding up and answering",
                                         {{"lane", std::to_string(lane)}})),
      unsent_(registry->GetCounter("tern_server_unsent_total",
                                   "Answers that could not be sent because the peer was gone",
                                   {{"lane", std::to_string(lane)}})),
      counters_(*registry, lane) {}

Status LaneLoop::MakeLane(uint32_t lane, uint64_t incarnation, std::span<const float> initial) {
  const Rate rate = [this](uint64_t step) {
    return schedule_.has_value() ? schedule_->Rate(step) : 0;
  };
  protocol::RoundLane::Options options = LaneOptions(setup_, shard_, lane, incarnation, rate);
  checkpoints_ = std::make_unique<LaneCheckpoints>(setup_, shard_, lane);
  if (!setup_.plan.central) {
    lane_ = std::make_unique<protocol::RoundLane>(std::move(options), LocalizedCells(lane));
    return Ok();
  }
  std::vector<float> own;
  if (initial.empty()) {
    own = InitialWeights(setup_);
    initial = own;
  }
  auto central = CentralLane::Make(setup_, shard_, lane, options, initial, rate, *checkpoints_);
  if (!central.ok()) return central.status();
  central_ = std::move(*central);
  return Ok();
}

LaneLoop::~LaneLoop() {
  commands_.Close();
  thread_.Join();
}

namespace {

// Forwards to another sum, and calls `closed` when it is closed.
class ObservedSum : public protocol::CellSum {
 public:
  ObservedSum(std::unique_ptr<protocol::CellSum> sum, std::function<void()> closed)
      : sum_(std::move(sum)), closed_(std::move(closed)) {}

  Status Add(uint32_t rank, const Bytes& payload) override { return sum_->Add(rank, payload); }
  Bytes Close() override {
    Bytes answer = sum_->Close();
    closed_();
    return answer;
  }

 private:
  std::unique_ptr<protocol::CellSum> sum_;
  const std::function<void()> closed_;
};

}  // namespace

std::vector<protocol::CellSpec> LaneLoop::LocalizedCells(uint32_t lane) {
  std::vector<protocol::CellSpec> cells = protocol::CellsOfLane(setup_.plan, shard_, lane);
  const bool keeps = std::any_of(cells.begin(), cells.end(),
                                 [](const auto& spec) { return static_cast<bool>(spec.state); });
  if (!keeps) checkpoints_.reset();
  for (protocol::CellSpec& spec : cells) {
    if (checkpoints_ == nullptr || !spec.state) continue;
    checkpoints_->AddCell(spec.cell, spec.state);
    spec.open = [this, cell = spec.cell, open = std::move(spec.open)](uint64_t round) {
      return std::make_unique<ObservedSum>(
          open(round), [this, cell, round] { checkpoints_->OnClosed(cell, round); });
    };
  }
  return cells;
}

std::optional<protocol::Saved> LaneLoop::Saved() const {
  if (checkpoints_ == nullptr || checkpoints_->empty()) return std::nullopt;
  return checkpoints_->Saved();
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
    SendAll(std::move(out));
    for (int batch = 0; batch < 256;
         ++batch) {  // at most so many, so that commands do not wait long
      std::optional<net::Received> received = socket_->Receive();
      if (!received.has_value()) break;
      protocol::Sends answers;
      {
        TimeScope time(sum_time_);
        OnReceived(std::move(*received), &answers);
      }
      SendAll(std::move(answers));
    }
    AfterMessages();
  }
  if (central_ != nullptr) {
    central_->Finish();
  } else if (checkpoints_ != nullptr) {
    checkpoints_->Finish();
  }
  socket_->CloseAfterFlush();
}

void LaneLoop::OnCommand(const LaneCommand& command, protocol::Sends* out) {
  if (const auto* members = std::get_if<pb::Members>(&command)) {
    OnMembers(*members, out);
  } else if (central_ != nullptr && central_->clock_lane() != nullptr) {
    central_->clock_lane()->Stop(out);
  } else {
    lane().OnStop();
  }
}

void LaneLoop::OnMembers(const pb::Members& members, protocol::Sends* out) {
  if ((shard_ == 0 || central_ != nullptr) && !schedule_.has_value()) {
    auto schedule = update::Schedule::Make(setup_.job.train(), members.steps());
    if (schedule.ok()) schedule_ = std::move(*schedule);
  }
  if (Begin(members)) lane().OnMembers(members, out);
}

bool LaneLoop::Begin(const pb::Members& members) {
  if (central_ != nullptr) {
    if (!central_->BeginRun(members.run()).ok()) return false;
  } else if (checkpoints_ != nullptr && !checkpoints_->Begin(members.run()).ok()) {
    return false;
  }
  if (!members.has_beginning() || members.beginning() == beginning_) return true;
  std::optional<pb::Checkpoint> to;
  if (members.has_resume()) to = members.resume();
  const bool has_its_newest = central_ != nullptr && central_->beginning() == members.beginning();
  if (const Status back = has_its_newest ? Ok() : GoBack(to); !back.ok()) {
    LOG(ERROR) << "lane " << lane_number_
               << " cannot go back, and refuses all workers: " << back.message();
    return false;
  }
  beginning_ = members.beginning();
  if (central_ != nullptr) central_->SetBeginning(beginning_);
  return true;
}

Status LaneLoop::GoBack(const std::optional<pb::Checkpoint>& to) {
  if (central_ != nullptr) return central_->GoBack(to);
  if (checkpoints_ != nullptr && to.has_value()) TERN_RETURN_IF_ERROR(checkpoints_->Load(*to));
  lane_->GoBack(to.has_value() ? to->round() : 0);
  return Ok();
}

void LaneLoop::AfterMessages() {
  if (central_ != nullptr) {
    central_->AfterMessages();
    const protocol::ClockLane* clocks = central_->clock_lane();
    if (clocks != nullptr) counters_.ExportDropped(clocks->dropped());
    if (clocks != nullptr && clocks->lost_clocks() > lost_clocks_told_) {
      lost_clocks_told_ = clocks->lost_clocks();
      LOG(WARNING) << "lane " << lane_number_ << " went back by up to " << lost_clocks_told_
                   << " pushes per worker; it now has " << clocks->total()
                   << " pushes of all workers";
    }
  }
  counters_.Export(lane());
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
  if (!message.head.has_hello()) return lane().OnMessage(received.peer, message, out);
  if (Status checked = protocol::CheckHello(message.head.hello(), setup_.hello); !checked.ok()) {
    out->push_back({received.peer,
                    protocol::MakeRefuse(ExitCode(checked), checked.message(), pb::Refuse::leave)});
    return;
  }
  lane().OnHello(received.peer, message.head.hello(), out);
}

void LaneLoop::SendAll(protocol::Sends sends) {
  for (const protocol::Send& send : sends) {
    // If the peer is gone, the answer may be lost: the peer repeats what it waits for when it
    // connects again.
    if (!socket_->Send(send.to, send.message.head, send.message.payload).ok()) unsent_.Add();
  }
}

}  // namespace tern::server
