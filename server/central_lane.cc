#include "server/central_lane.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"
#include "server/rules/clock_rules.h"

namespace tern::server {

namespace {

SnapshotOwner OwnerOf(const setup::Setup& setup, uint32_t shard, uint32_t lane, uint64_t run) {
  return {setup.job.output_dir(), shard, lane, setup.hello.job_digest(), run};
}

}  // namespace

Result<std::unique_ptr<CentralLane>> CentralLane::Make(const setup::Setup& setup, uint32_t shard,
                                                       uint32_t lane,
                                                       const protocol::RoundLane::Options& options,
                                                       std::span<const float> initial,
                                                       const Rate& rate,
                                                       LaneCheckpoints* checkpoints) {
  std::unique_ptr<CentralLane> central(
      new CentralLane(setup, shard, lane, options, rate, checkpoints));
  if (central->facts_.rounds) {
    TERN_RETURN_IF_ERROR(central->AddRounds(initial));
    central->MakeRoundLane();
  } else {
    auto cells = central->MakeClockCells(initial);
    if (!cells.ok()) return cells.status();
    central->MakeClockLane(std::move(*cells));
  }
  return central;
}

CentralLane::CentralLane(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                         const protocol::RoundLane::Options& options, const Rate& rate,
                         LaneCheckpoints* checkpoints)
    : setup_(setup),
      facts_(algorithm::FactsOf(setup.job)),
      shard_(shard),
      lane_number_(lane),
      options_(options),
      rate_(rate),
      snapshots_(OwnerOf(setup, shard, lane, 0), setup.job.faults().snapshot_every_steps(),
                 options.window),
      checkpoints_(checkpoints) {
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      if (chunk.shard == shard_ && chunk.lane == lane_number_) chunks_.push_back(&chunk);
    }
  }
}

void CentralLane::AddState(const protocol::Cell& cell, const LaneCheckpoints::State& state) {
  snapshots_.AddCell(cell, state);
  if (checkpoints_ != nullptr) checkpoints_->AddCell(cell, state);
}

Status CentralLane::AddRounds(std::span<const float> initial) {
  for (const protocol::Chunk* chunk : chunks_) {
    auto made = CentralRounds::Make(setup_, *chunk, initial, rate_);
    if (!made.ok()) return made.status();
    CentralRounds* cell = made->get();
    rounds_.push_back(std::move(*made));
    AddState(cell->cell(), [cell](SavedState* state) { cell->AddState(state); });
    cell->SetOnClosed([this, cell](uint64_t round) {
      snapshots_.OnClosed(cell->cell(), round);
      if (checkpoints_ != nullptr) checkpoints_->OnClosed(cell->cell(), round);
    });
  }
  return Ok();
}

Result<std::vector<protocol::ClockCellSpec>> CentralLane::MakeClockCells(
    std::span<const float> initial) {
  std::vector<protocol::ClockCellSpec> cells;
  for (const protocol::Chunk* chunk : chunks_) {
    auto made = MakeClockRule(setup_, *chunk, initial, rate_);
    if (!made.ok()) return made.status();
    ClockRule* rule = made->get();
    cells.push_back({rule->cell(), std::move(*made)});
    AddState(rule->cell(), [this, rule](SavedState* state) {
      rule->AddState(state);
      AddClocks(rule->cell(), state);
    });
  }
  return cells;
}

void CentralLane::MakeRoundLane() {
  std::vector<protocol::CellSpec> specs;
  for (protocol::CellSpec& spec : protocol::CellsOfLane(setup_.plan, shard_, lane_number_)) {
    for (const auto& cell : rounds_) {
      if (cell->cell() == spec.cell) specs.push_back(cell->Spec(std::move(spec)));
    }
  }
  auto lane = std::make_unique<protocol::RoundLane>(options_, std::move(specs));
  round_lane_ = lane.get();
  lane_ = std::move(lane);
}

void CentralLane::MakeClockLane(std::vector<protocol::ClockCellSpec> cells) {
  protocol::ClockLane::Options options;
  options.workers = options_.workers;
  options.incarnation = options_.incarnation;
  options.safeguards = options_.safeguards;
  options.pushes = [this](uint64_t steps) {
    return facts_.PushesOfJob(steps, setup_.plan.workers);
  };
  options.bound = facts_.bound;
  options.max_staleness = setup_.job.train().max_staleness();
  if (shard_ == 0) options.learning_rate = [this](uint64_t total) { return rate_(StepsOf(total)); };
  for (const protocol::ClockCellSpec& cell : cells) {
    protocol::CellClocks& clocks = clocks_[cell.cell];
    clocks.counted.resize(options_.workers);
    clocks.answered.resize(options_.workers);
  }
  auto lane = std::make_unique<protocol::ClockLane>(std::move(options), std::move(cells));
  clock_lane_ = lane.get();
  lane_ = std::move(lane);
}

void CentralLane::AddClocks(const protocol::Cell& cell, SavedState* state) {
  protocol::CellClocks& clocks = clocks_[cell];
  clocks = clock_lane_->clocks(cell);
  state->numbers.push_back({"total", &clocks.total});
  for (size_t rank = 0; rank < clocks.counted.size(); ++rank) {
    state->numbers.push_back({Cat("counted.", rank), &clocks.counted[rank]});
    state->numbers.push_back({Cat("answered.", rank), &clocks.answered[rank]});
  }
  state->numbers.push_back({"beginning", &beginning_});
}

void CentralLane::RestoreClocks() {
  for (const auto& [cell, clocks] : clocks_) clock_lane_->Restore(cell, clocks);
}

Status CentralLane::LoadSnapshot(uint64_t step) {
  TERN_RETURN_IF_ERROR(snapshots_.Load(step));
  RestoreClocks();
  return Ok();
}

std::string CentralLane::BeginRun(uint64_t run) {
  if (run == 0 || run == run_) return "";
  run_ = run;
  snapshots_.SetRun(run);
  RemoveSnapshotsOfOthers(snapshots_.owner());
  const std::vector<uint64_t> steps = ListSnapshots(snapshots_.owner());
  if (steps.empty() || clock_lane_ == nullptr) return "";
  const Status loaded = LoadSnapshot(steps.back());
  if (!loaded.ok()) return "starts again from the initial weights: " + loaded.message();
  return Cat("goes on from its snapshot of step ", steps.back());
}

void CentralLane::AfterMessages() {
  if (clock_lane_ == nullptr) return;
  if (snapshots_.IsDue(step())) snapshots_.Take(step());
  if (checkpoints_ != nullptr) checkpoints_->WriteIfDue(step());
}

void CentralLane::Finish() {
  if (checkpoints_ == nullptr) return;
  if (clock_lane_ != nullptr) {
    // Lanes may differ by pushes that one of them had lost; of a job that is done all say its end.
    checkpoints_->WriteNow(clock_lane_->done() ? StepsOf(clock_lane_->target()) : step());
  } else {
    checkpoints_->Finish();
  }
}

Status CentralLane::RollBackTo(uint64_t to) {
  TERN_RETURN_IF_ERROR(to == 0 ? StartAfresh() : LoadSnapshot(to));
  if (checkpoints_ != nullptr) TERN_RETURN_IF_ERROR(checkpoints_->GoBack(to));
  if (round_lane_ != nullptr) round_lane_->GoBack(to);
  return Ok();
}

Status CentralLane::ResumeFrom(const pb::Checkpoint& from) {
  if (checkpoints_ == nullptr) return Status(Code::kInternal, "this lane has no checkpoints");
  if (clock_lane_ != nullptr) TERN_RETURN_IF_ERROR(StartAfresh());
  TERN_RETURN_IF_ERROR(checkpoints_->Load(from));
  snapshots_.RemoveAll();  // what came after it never was, and what came before is of no use
  if (clock_lane_ != nullptr) {
    RestoreClocks();
  } else {
    round_lane_->GoBack(from.round());
  }
  return Ok();
}

bool CentralLane::HasMoved() const {
  return std::any_of(rounds_.begin(), rounds_.end(),
                     [](const auto& cell) { return cell->round() != 0; }) ||
         std::any_of(clocks_.begin(), clocks_.end(),
                     [this](const auto& one) { return clock_lane_->clocks(one.first).total != 0; });
}

Status CentralLane::StartAfresh() {
  snapshots_.RemoveAll();
  if (!HasMoved()) return Ok();
  const std::vector<float> initial = InitialWeights(setup_);
  for (const auto& cell : rounds_) TERN_RETURN_IF_ERROR(cell->Restart(initial));
  if (clock_lane_ == nullptr) return Ok();
  auto cells = MakeClockCells(initial);
  if (!cells.ok()) return cells.status();
  clock_lane_->GoBack(std::move(*cells));
  return Ok();
}

uint64_t CentralLane::StepsOf(uint64_t pushes) const {
  return facts_.StepsOfPushes(pushes, options_.workers);
}

uint64_t CentralLane::step() const {
  if (clock_lane_ != nullptr) return StepsOf(clock_lane_->total());
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const auto& cell : rounds_) least = std::min(least, cell->round());
  return least;
}

std::vector<uint64_t> SnapshotsOfShard(const setup::Setup& setup, uint32_t shard, uint64_t run) {
  std::vector<SnapshotOwner> owners;
  for (uint32_t lane = 1; lane <= setup.plan.data_lanes[shard]; ++lane) {
    const auto has_chunk = [&](const protocol::Bucket& bucket) {
      return std::any_of(bucket.chunks.begin(), bucket.chunks.end(), [&](const auto& chunk) {
        return chunk.shard == shard && chunk.lane == lane;
      });
    };
    const auto& buckets = setup.plan.buckets;
    if (std::any_of(buckets.begin(), buckets.end(), has_chunk))
      owners.push_back(OwnerOf(setup, shard, lane, run));
  }
  return CommonSnapshots(owners);
}

}  // namespace tern::server
