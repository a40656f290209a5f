#include "tests/sim/world.h"

#include <algorithm>
#include <iterator>
#include <ostream>

#include "tests/sim/broken.h"
#include "tests/sim/lane_job.h"

namespace tern::sim {

using protocol::LaneRef;
using protocol::Message;
using protocol::Peer;
using std::chrono::milliseconds;

namespace {

// Every job ends before this time or runs into one of its own timeouts, so a longer run is stuck.
constexpr Time kDeadline = milliseconds(50'000);
// The same for jobs whose processes may all be killed and started again, up to twice.
constexpr Time kDeadlineOfDisasters = milliseconds(90'000);
// The same for jobs in which hosts or processes are away for an hour.
constexpr Time kDeadlineOfSleepers = std::chrono::hours(4);
constexpr Time kStrangerInterval = milliseconds(5);

std::string NameOfClient(const Connection& connection, const ToyWorker* worker) {
  if (connection.is_of_stranger()) return "stranger";
  return worker == nullptr ? "follower" : "worker " + std::to_string(worker->rank());
}

}  // namespace

World::World(const Schedule& schedule, const protocol::Safeguards& safeguards, std::ostream* trace)
    : schedule_(schedule),
      safeguards_(safeguards),
      trace_stream_(trace),
      rng_(schedule.seed ^ 0x5eed),
      network_(schedule, &rng_, &queue_, this),
      layout_(schedule),
      fault_free_states_(FaultFreeStates(schedule)),
      first_states_(schedule.rounds + 1),
      ledger_(schedule.workers),
      clock_ledger_(schedule.workers),
      disk_rng_(schedule.seed ^ 0xd15ced),
      disks_(schedule.shards()),
      write_faults_(schedule.shards()),
      max_lost_checkpoints_(schedule.shards()),
      job_(schedule.servers_hold_state() || schedule.checkpoint_every != 0
               ? MakeLaneJob(schedule, layout_, ExpectedHello())
               : nullptr),
      worker_disks_(schedule.workers),
      report_([this](const std::string& what) { ReportViolation(what); }),
      stranger_(this, schedule.seed ^ 0x57a46e),
      num_processes_(schedule.workers),
      current_server_(schedule.shards(), kNobody),
      is_posted_(schedule.faults.size()) {
  const Schedule::FullDisk& full_disk = schedule.full_disk;
  if (schedule.checkpoint_every != 0)
    checkpoint_owner_ = setup::CheckpointOwner(*job_, "disk", "worker");
  if (full_disk.changes != 0)
    disks_[full_disk.shard].RefuseAfter(full_disk.from, full_disk.changes);
}

pb::Hello World::ExpectedHello() const {
  pb::Hello hello;
  hello.set_job("toy");
  hello.set_job_digest(1);
  hello.set_model_digest(2);
  hello.set_plan_digest(3);
  hello.set_steps(schedule_.rounds);
  return hello;
}

void World::OnBeginning(uint64_t beginning, uint64_t begin) {
  if (chunk_histories_.contains(beginning)) return;
  ChunkHistories& histories = chunk_histories_[beginning] = chunk_histories_[beginning_];
  for (auto& history : histories) history.erase(history.upper_bound(begin), history.end());
  beginning_ = beginning;
}

void World::OnCellClosed(uint64_t beginning, const protocol::Cell& cell, uint64_t round,
                         uint64_t word) {
  auto& history = chunk_histories_[beginning][cell.bucket * kNumChunks + cell.chunk];
  if (schedule_.sends_changes) {
    const auto next_entry = history.lower_bound(round);
    word = AddFloats(next_entry == history.begin() ? 0 : std::prev(next_entry)->second, word);
  }
  if (history.try_emplace(round, word).first->second != word)
    ReportViolation(ToString(cell, round) + " has two answers");
}

bool World::IsRightState(uint64_t round, const State& state) {
  if (round > schedule_.rounds) return false;
  if (spoiled_after_.has_value() && round >= *spoiled_after_) return true;
  // In a job with Schedule::exchanges_parts, an additional last round exchanges all buckets. A stop
  // moves this round to an earlier step, and then the states differ from those of the run without
  // faults.
  const bool follows_plan =
      !schedule_.exchanges_parts || std::none_of(schedule_.faults.begin(), schedule_.faults.end(),
                                                 [](const Fault& fault) { return fault.IsStop(); });
  if (schedule_.is_deterministic() && follows_plan) return state == fault_free_states_[round];
  if (schedule_.is_central) return IsStateOfLanes(round, state);
  std::optional<State>& known_state = first_states_[round];
  if (!known_state.has_value()) known_state = state;
  return state == *known_state;
}

bool World::IsStateOfLanes(uint64_t round, const State& state) const {
  const auto is_state_of = [&](const auto& histories) {
    for (size_t i = 0; i < state.size(); ++i) {
      // A round to which no worker contributed does not change the word.
      auto next_entry = histories.second[i].upper_bound(round);
      const uint64_t word =
          next_entry == histories.second[i].begin() ? 0 : std::prev(next_entry)->second;
      if (word != state[i]) return false;
    }
    return true;
  };
  return std::any_of(chunk_histories_.begin(), chunk_histories_.end(), is_state_of);
}

void World::OnResumed(uint64_t round) {
  if (spoiled_after_.has_value() && round > *spoiled_after_)
    return ReportViolation("all go on from a checkpoint with a flipped bit");
  if (!spoiled_after_.has_value() && !schedule_.shrinks()) return;
  spoiled_after_.reset();
  // Where rounds may close without some workers, the repeated rounds may have other contributors.
  for (uint64_t later = round + 1; later <= schedule_.rounds; ++later) first_states_[later].reset();
}

std::string World::Run() {
  for (uint32_t s = 0; s < schedule_.shards(); ++s) {
    ++num_starting_;
    queue_.Post(rng_.Ms(0, 30), Event::Type::kStartServer, s);
  }
  for (uint32_t r = 0; r < schedule_.workers; ++r) {
    ++num_starting_;
    queue_.Post(rng_.Ms(0, 30), Event::Type::kStartWorker, r);
  }
  if (schedule_.has_stranger) queue_.Post(kStrangerInterval, Event::Type::kStrangerTick, 0);
  const bool is_long =
      std::any_of(schedule_.faults.begin(), schedule_.faults.end(),
                  [](const Fault& fault) { return fault.down_time >= std::chrono::hours(1); });
  const Time deadline = is_long                           ? kDeadlineOfSleepers
                        : schedule_.checkpoint_every != 0 ? kDeadlineOfDisasters
                                                          : kDeadline;
  while (!queue_.empty() && violation_.empty()) {
    const Event event = queue_.Pop();
    if (event.time > deadline) {
      // A process that could not hear of the end of shard 0 waits for its own timeouts. That does
      // not count as stuck.
      const bool could_not_hear_end = all_state_lost_ && !Server(0)->alive();
      if (!StoppedEarly() && !could_not_hear_end)
        ReportViolation("stuck: " + DescribeRunningProcesses());
      break;
    }
    now_ = event.time;
    ++num_events_handled_;
    HandleEvent(event);
    CheckInvariants();
    if (IsOver()) break;
  }
  if (violation_.empty()) JudgeJobEnd();
  return violation_;
}

// Broken invariants count only if no safeguard of the protocol is switched off. A test that
// switches a safeguard off wants the judge to find the effect.
void World::CheckInvariants() {
  const std::string broken_invariant = TakeBrokenInvariant();
  if (!broken_invariant.empty() && safeguards_ == protocol::Safeguards{})
    ReportViolation(broken_invariant);
}

void World::HandleEvent(const Event& event) {
  switch (event.type) {
    case Event::Type::kToServer:
    case Event::Type::kToClient:
    case Event::Type::kConnect:
    case Event::Type::kDisconnected:
      return network_.OnEvent(event, now_);
    case Event::Type::kWorkerTick:
      if (!workers_[event.who]->alive()) return;
      queue_.Post(now_ + milliseconds(50), event.type, event.who);
      return workers_[event.who]->OnTick();
    case Event::Type::kWorkerTask:
      return workers_[event.who]->OnTask(event.index);
    case Event::Type::kServerTick:
      if (!servers_[event.who]->alive()) return;
      queue_.Post(now_ + milliseconds(125), event.type, event.who);
      CheckMemoryBounds();
      return servers_[event.who]->OnTick();
    case Event::Type::kServerMembers:
      return servers_[event.who]->OnMembers(event.index);
    case Event::Type::kFault:
      return InjectFault(schedule_.faults[event.who]);
    case Event::Type::kThaw:
      return workers_[event.who]->Thaw();
    case Event::Type::kWake:
      return servers_[event.who]->Wake();
    case Event::Type::kStartWorker:
      return StartWorker(event.who);
    case Event::Type::kStartServer:
      return StartServer(event.who);
    case Event::Type::kOnHost: {
      auto [from, message] = hosts_.Take(event.index);
      return workers_[event.who]->OnHostMessage(from, message);
    }
    case Event::Type::kStrangerTick:
      queue_.Post(now_ + kStrangerInterval, event.type, event.who);
      return stranger_.OnTick();
  }
}

void World::StartWorker(uint32_t rank) {
  --num_starting_;
  if (IsEnding()) return;  // the job is done, so its workers are not restarted
  const auto process = static_cast<uint32_t>(workers_.size());
  Trace([&] { return "worker " + std::to_string(rank) + " starts"; });
  workers_.push_back(MakeWorker(this, process, rank, rng_.Next() | 1));
  workers_.back()->Start();
  queue_.Post(now_ + milliseconds(50), Event::Type::kWorkerTick, process);
  OnReached(rank, Fault::Point::kJoining, ++num_processes_[rank]);
}

void World::StartServer(uint32_t shard) {
  --num_starting_;
  const ToyServer* const shard0 = current_server_[0] == kNobody ? nullptr : Server(0);
  // A shard is not started again once shard 0 has ended the job.
  if (shard != 0 && shard0 != nullptr && !shard0->alive() && !shard0->killed()) return;
  const auto process = static_cast<uint32_t>(servers_.size());
  Trace([&] { return "shard " + std::to_string(shard) + " starts"; });
  servers_.push_back(std::make_unique<ToyServer>(this, process, shard, rng_.Next() | 1));
  current_server_[shard] = process;
  servers_.back()->Start();
  queue_.Post(now_ + milliseconds(125), Event::Type::kServerTick, process);
}

void World::OnReached(uint32_t rank, Fault::Point point, uint64_t round) {
  for (uint32_t i = 0; i < schedule_.faults.size(); ++i) {
    const Fault& fault = schedule_.faults[i];
    const bool is_reached =
        fault.point == point && (fault.round == round || point == Fault::Point::kLeaving);
    if (is_posted_[i] || fault.witness != rank || !is_reached) continue;
    is_posted_[i] = true;
    queue_.Post(now_ + fault.delay_after_point, Event::Type::kFault, i);
  }
}

bool World::IsEnding() const {
  const auto has_ended = [](const auto& process) {
    return process->status().ok() && !process->alive() && !process->killed();
  };
  if (std::any_of(workers_.begin(), workers_.end(), has_ended)) return true;
  if (current_server_[0] == kNobody) return false;
  const ToyServer& shard0 = *servers_[current_server_[0]];
  return !shard0.killed() && (!shard0.alive() || shard0.coordinator().ending());
}

ToyWorker* World::LiveWorker(uint32_t rank) const {
  for (auto worker = workers_.rbegin(); worker != workers_.rend(); ++worker) {
    if ((*worker)->rank() == rank && (*worker)->alive()) return worker->get();
  }
  return nullptr;
}

bool World::HasDonorOtherThan(uint32_t rank) const {
  for (uint32_t other = 0; other < schedule_.workers; ++other) {
    const ToyWorker* worker = LiveWorker(other);
    if (other == rank || worker == nullptr || worker->frozen()) continue;
    // Of two processes of one rank, one will be refused. So a rank that has had several processes
    // counts only if its newest process is ready and the schedule replaces no worker.
    const bool is_only_process = num_processes_[other] == 1;
    if (is_only_process ||
        (worker->ready() && !schedule_.HasFaultOfKind(Fault::Kind::kReplaceWorker)))
      return true;
  }
  return false;
}

// Starts another process of the worker's rank if none is left though the job goes on. Of two
// processes with the same rank both may be refused, and a process that is asked to stop while shard
// 0 is down ends without telling shard 0. The real `tern run` would restart the worker then, too.
void World::OnWorkerEnded(const ToyWorker& worker) {
  const bool ended_without_telling = worker.status().code() == Code::kTerminated;
  const bool may_be_refused =
      !worker.status().ok() &&
      (ended_without_telling || schedule_.HasFaultOfKind(Fault::Kind::kReplaceWorker));
  if (schedule_.elasticity.on_loss != algorithm::OnLoss::kWait || !may_be_refused || IsEnding() ||
      LiveWorker(worker.rank()) != nullptr)
    return;
  if (num_processes_[worker.rank()] >= 5 || StoppedEarly()) return;
  ++num_starting_;
  queue_.Post(now_ + milliseconds(100), Event::Type::kStartWorker, worker.rank());
}

bool World::HasFaultFor(uint32_t rank) const {
  return std::any_of(schedule_.faults.begin(), schedule_.faults.end(), [&](const Fault& fault) {
    if (fault.kind == Fault::Kind::kSleep || fault.kind == Fault::Kind::kKillAll ||
        fault.kind == Fault::Kind::kKillWorkers)
      return true;
    const bool hits_server =
        fault.kind == Fault::Kind::kKillServer || fault.kind == Fault::Kind::kCutServer;
    return !hits_server && !fault.IsStop() && fault.target == rank;
  });
}

bool World::IsOver() const {
  const auto is_running = [](const auto& process) { return process->alive(); };
  if (num_starting_ != 0 || std::any_of(servers_.begin(), servers_.end(), is_running)) return false;
  for (const auto& worker : workers_) {
    if (!worker->alive()) continue;
    if (worker->frozen() && !schedule_.HasFaultOfKind(Fault::Kind::kSleep)) continue;
    // A process that thaws after another process of its rank has finished may not know of that yet.
    const bool was_replaced = std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
      return other->rank() == worker->rank() && other->leaving() && !other->alive();
    });
    if (!was_replaced) return false;
  }
  return true;
}

void World::CheckMemoryBounds() {
  for (uint32_t process : current_server_) {
    if (process == kNobody || servers_[process]->killed()) continue;
    for (const protocol::RoundLane* lane : servers_[process]->round_lanes()) {
      if (lane->LargestNumSlots() > lane->MaxSlots())
        ReportViolation("a lane keeps more rounds than it may");
      if (lane->MaxSlots() >
          (schedule_.is_deterministic() ? 4 : 16) + 2 * (schedule_.lane_window() - 1) + 2)
        ReportViolation("a lane may keep too many rounds");
    }
  }
  for (const auto& worker : workers_) {
    if (!worker->alive()) continue;
    // A round has at most 7 outcomes: 2 scalers, 4 sums and one of figures. The job's last figures
    // are one more.
    const uint32_t window = schedule_.lane_window();
    const size_t max_rounds = schedule_.is_deterministic() ? window + 1 : 16 + 2 * window;
    if (worker->session().exchange().held().size() > 7 * max_rounds + 1)
      ReportViolation("a worker holds more than it may");
  }
}

const Status& World::StatusOfWorker(uint32_t rank) const {
  const auto worker =
      std::find_if(workers_.rbegin(), workers_.rend(),
                   [rank](const auto& any_worker) { return any_worker->rank() == rank; });
  return (*worker)->status();
}

const ToyWorker* World::WorkerOf(const Connection& connection) const {
  return connection.is_worker && !connection.is_of_stranger() ? workers_[connection.client].get()
                                                              : nullptr;
}

uint32_t World::ListeningProcess(LaneRef lane, uint32_t port) {
  const uint32_t process = current_server_[lane.shard];
  return process != kNobody && servers_[process]->ListensAt(lane, port) ? process : kNobody;
}

void World::DeliverToServer(const Connection& connection, Peer peer, const Message& message) {
  Trace([&] {
    return NameOfClient(connection, WorkerOf(connection)) + " -> shard " +
           std::to_string(connection.lane.shard) + "." + std::to_string(connection.lane.lane) +
           ": " + message.head.ShortDebugString();
  });
  servers_[connection.server]->OnMessage(connection.lane.lane, peer, message);
}

void World::DeliverToClient(const Connection& connection, const Message& message) {
  Trace([&] {
    return "shard " + std::to_string(connection.lane.shard) + "." +
           std::to_string(connection.lane.lane) + " -> " +
           NameOfClient(connection, WorkerOf(connection)) + ": " + message.head.ShortDebugString();
  });
  if (connection.is_of_stranger()) return;
  if (connection.is_worker) return workers_[connection.client]->OnMessage(connection.lane, message);
  servers_[connection.client]->OnMessageFromShard0(message);
}

void World::DeliverDamagedToServer(const Connection& connection, Peer peer) {
  if (!schedule_.ignores_damage) servers_[connection.server]->OnDamaged(connection.lane.lane, peer);
}

void World::DeliverDamagedToClient(const Connection& connection) {
  if (schedule_.ignores_damage || connection.is_of_stranger()) return;
  if (connection.is_worker) return workers_[connection.client]->OnDamaged(connection.lane);
  servers_[connection.client]->OnShard0Disconnected();
}

void World::OnDisconnected(const Connection& connection) {
  if (connection.is_of_stranger()) return;
  if (connection.is_worker) return workers_[connection.client]->OnDisconnected(connection.lane);
  servers_[connection.client]->OnShard0Disconnected();
}

bool World::MustDelayToServer(const Connection& connection) {
  const ToyWorker* const worker = WorkerOf(connection);
  if (worker == nullptr || !worker->messages_held()) return false;
  if (!servers_[connection.server]->alive()) return false;
  const ToyWorker* successor = LiveWorker(worker->rank());
  return successor == nullptr || !successor->admitted();
}

void World::ReportViolation(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void World::WriteTrace(const std::string& text) {
  *trace_stream_ << std::chrono::duration_cast<std::chrono::microseconds>(now_).count() / 1000.0
                 << " ms  " << text << "\n";
}

std::string Play(const Schedule& schedule, const protocol::Safeguards& safeguards,
                 std::ostream* trace) {
  if (trace != nullptr) *trace << ToString(schedule) << "\n";
  World world(schedule, safeguards, trace);
  std::string violation = world.Run();
  return violation.empty() ? violation : ToString(schedule) + "\n  " + violation;
}

}  // namespace tern::sim
