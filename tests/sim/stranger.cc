#include "tests/sim/stranger.h"

#include <utility>
#include <vector>

#include "tests/sim/world.h"

namespace tern::sim {

using protocol::Cell;
using protocol::LaneRef;
using protocol::Message;

namespace {

constexpr uint64_t kIncarnation = 0x57a46e5, kRun = 0xfa15e;  // the stranger's own inventions
constexpr uint64_t kClaimedEpoch = 1000;
constexpr uint32_t kStopSignal = 143;

}  // namespace

void Stranger::OnTick() {
  const protocol::Coordinator* const coordinator = world_.RunningCoordinator();
  if (coordinator == nullptr || coordinator->ending()) return;
  const auto rank = static_cast<uint32_t>(rng_.Below(coordinator->workers().size()));
  const Worker& worker = coordinator->workers()[rank];
  // A free rank or place belongs to the first process that asks for it, so the stranger asks only
  // for those that are taken.
  if (!worker.live()) return;
  switch (coordinator->running() ? rng_.Below(6) : 0) {
    case 0:
      return SayHello(pb::Hello::worker, rank);
    case 1:
      if (world_.schedule().shards() > 1 && world_.HasPlace(1)) SayHello(pb::Hello::shard, 1);
      return;
    case 2:
      return SendPulse();
    case 3:
      return SendHeartbeat(rank, worker);
    case 4:
      return SendBye(rank, worker);
    default:
      return SendContribution(rank, worker);
  }
}

void Stranger::SayHello(pb::Hello::Role role, uint32_t rank) {
  Message message;
  pb::Hello* hello = message.head.mutable_hello();
  *hello = world_.ExpectedHello();
  hello->set_role(role);
  hello->set_rank(rank);
  hello->set_incarnation(kIncarnation);
  hello->set_epoch(kClaimedEpoch);
  hello->set_run(kRun);
  Send({0, 0}, std::move(message));
}

void Stranger::SendPulse() {
  Message message;
  message.head.mutable_pulse()->set_incarnation(kIncarnation);
  message.head.mutable_pulse()->set_stop(kStopSignal);
  Send({0, 0}, std::move(message));
}

void Stranger::SendHeartbeat(uint32_t rank, const Worker& worker) {
  Message message;
  pb::Heartbeat* beat = message.head.mutable_heartbeat();
  beat->set_rank(rank);
  beat->set_incarnation(worker.incarnation);
  beat->set_applied(worker.applied + 1);
  beat->set_stop(kStopSignal);
  Send({AnyShard(), 0}, std::move(message));
}

void Stranger::SendBye(uint32_t rank, const Worker& worker) {
  Message message;
  message.head.mutable_bye()->set_rank(rank);
  message.head.mutable_bye()->set_incarnation(worker.incarnation);
  Send({0, 0}, std::move(message));
}

void Stranger::SendContribution(uint32_t rank, const Worker& worker) {
  const uint32_t shard = AnyShard();
  const LaneRef lane{shard,
                     static_cast<uint32_t>(rng_.Below(world_.schedule().data_lanes[shard] + 1))};
  const std::vector<Cell> cells = world_.layout().CellsAt(lane);
  if (cells.empty()) return;
  const Cell cell = cells[rng_.Below(cells.size())];
  Message message;
  pb::Contribution* contribution = MutableContribution(cell.kind, &message.head);
  contribution->set_bucket(cell.bucket);
  contribution->set_chunk(cell.chunk);
  contribution->set_rank(rank);
  contribution->set_incarnation(worker.incarnation);
  contribution->set_epoch(worker.epoch);
  if (world_.schedule().has_rounds()) {
    contribution->mutable_in_round()->set_round(worker.applied + 1);
    contribution->mutable_in_round()->set_applied(worker.applied);
  } else {
    contribution->mutable_at_clock()->set_clock(1 + rng_.Below(world_.schedule().rounds));
  }
  message.payload = EncodeWord(FloatsFromBits(rng_.Next()));
  Send(lane, std::move(message));
}

void Stranger::Send(LaneRef lane, Message message) {
  const auto [connection, is_new] = connections_.try_emplace(lane, kNobody);
  if (is_new) {
    connection->second =
        world_.network().OpenConnection(true, kNobody, lane, world_.PortOf(lane), world_.now());
  }
  // The first message is lost, because no server has accepted the connection yet.
  world_.network().SendToServer(connection->second, std::move(message), world_.now());
}

uint32_t Stranger::AnyShard() {
  return static_cast<uint32_t>(rng_.Below(world_.schedule().shards()));
}

}  // namespace tern::sim
