#include "tests/sim/played_lane.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "common/base/logging.h"
#include "tests/sim/world.h"

namespace tern::sim {

using protocol::Cell;
using protocol::Kind;
using protocol::Message;
using protocol::Sends;

namespace {

uint64_t WordOf(std::span<const float> weights) {
  uint64_t word = 0;
  std::memcpy(&word, weights.data(), sizeof word);
  return word;
}

}  // namespace

PlayedLane::PlayedLane(World* world, protocol::LaneRef lane_ref, server::DataLane::Options options)
    : world_(world), lane_ref_(lane_ref), has_rounds_(world->schedule().has_rounds()) {
  for (const Cell& cell : world->layout().CellsAt(lane_ref)) cells_.push_back(cell);
  static const std::vector<float> initial_weights(kNumBuckets * kNumChunks * 2);
  auto lane =
      server::DataLane::Make(world->job(), lane_ref.shard, lane_ref.lane, std::move(options),
                             initial_weights, world->disk(lane_ref.shard));
  CHECK(lane.ok()) << lane.status().message();  // MakeLaneJob makes valid jobs only
  lane_ = std::move(*lane);
  if (has_cells()) world->CheckCheckpointsOnDisk(lane_ref, CheckpointsOnDisk());
}

void PlayedLane::OnMembers(const pb::Members& members, Sends* out) {
  const uint64_t beginning_before = lane_->beginning();
  lane_->OnMembers(members, out);
  ReportCheckpoints();
  if (has_rounds_ && lane_->beginning() != beginning_before)
    world_->OnBeginning(lane_->beginning(), members.begin());
  if (has_rounds_) ReportAnswers(*out, 0);
  if (world_->disk(lane_ref_.shard).stopped()) return;
  if (members.has_beginning() && lane_->beginning() != members.beginning() && lane_->failure().ok())
    world_->ReportViolation(DisplayName() + " cannot go back");
  for (const Cell& cell : cells_) {
    if (has_rounds_) continue;
    const server::CentralLane::Weights weights = lane_->central()->weights(cell);
    if (!world_->clock_ledger().RestartFrom(cell, total(cell),
                                            {weights.version, WordOf(weights.values)}))
      world_->ReportViolation(DisplayName() + " goes on from a state that it never had");
  }
}

void PlayedLane::OnMessage(protocol::Peer from, const Message& message, Sends* out) {
  const size_t num_sends_before = out->size();
  lane_->OnMessage(from, message, out);
  ReportCheckpoints();
  has_rounds_ ? ReportAnswers(*out, num_sends_before) : ReportPush(message);
}

void PlayedLane::Stop(Sends* out) { lane_->Stop(out); }

void PlayedLane::AfterMessages() {
  lane_->AfterMessages();
  ReportCheckpoints();
}

World::Checkpoints PlayedLane::CheckpointsOnDisk() const {
  World::Checkpoints checkpoints;
  const std::optional<protocol::SavedCheckpoints> saved = lane_->Saved();
  if (!saved.has_value()) return checkpoints;
  for (const auto* saved_of_kind : {&saved->checkpoints, &saved->shard_checkpoints}) {
    for (const pb::Checkpoint& checkpoint : *saved_of_kind)
      checkpoints.insert(protocol::KeyOf(checkpoint));
  }
  return checkpoints;
}

void PlayedLane::ReportCheckpoints() {
  const MemoryStorage& disk = world_->disk(lane_ref_.shard);
  if (!has_cells() || disk.stopped() || disk.num_changes() == reported_disk_changes_) return;
  reported_disk_changes_ = disk.num_changes();
  world_->SetCheckpointsOnDisk(lane_ref_, CheckpointsOnDisk());
}

std::string PlayedLane::DisplayName() const {
  return "lane " + std::to_string(lane_ref_.shard) + "." + std::to_string(lane_ref_.lane);
}

void PlayedLane::ReportPush(const Message& message) {
  if (!message.head.has_push()) return;
  const pb::Contribution& push = message.head.push();
  const Cell cell{Kind::kPush, push.bucket(), push.chunk()};
  ClockLedger& ledger = world_->clock_ledger();
  if (total(cell) == ledger.total(cell)) return;
  if (total(cell) != ledger.total(cell) + 1)
    world_->ReportViolation("a push is counted as another number");
  const ClockLedger::Push counted_push{push.rank(), push.at_clock().clock(),
                                       DecodeWord(message.payload)};
  const server::CentralLane::Weights weights = lane_->central()->weights(cell);
  const std::string error = ledger.RecordCounted(
      cell, counted_push, {weights.version, WordOf(weights.values)}, world_->schedule());
  if (!error.empty()) world_->ReportViolation(error + ": " + ToString(cell, push));
}

void PlayedLane::ReportAnswers(const Sends& sends, size_t from) {
  for (size_t i = from; i < sends.size(); ++i) {
    const Message& message = sends[i].message;
    const pb::Outcome& outcome = message.head.sum();
    if (!outcome.has_of_round() || message.payload.empty()) continue;
    world_->OnCellClosed(lane_->beginning(), {Kind::kPush, outcome.bucket(), outcome.chunk()},
                         outcome.of_round().round(), DecodeWord(message.payload));
  }
}

}  // namespace tern::sim
