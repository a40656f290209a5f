#include "server/central_lane.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"
#include "server/lane_trace.h"
#include "server/rules/clock_rules.h"

namespace tern::server {

Result<std::unique_ptr<CentralLane>> CentralLane::Make(const setup::Setup& setup, uint32_t shard,
                                                       uint32_t lane,
                                                       const protocol::RoundLane::Options& options,
                                                       std::span<const float> initial,
                                                       const Rate& rate,
                                                       LaneCheckpoints& checkpoints) {
  std::unique_ptr<CentralLane> central_lane(
      new CentralLane(setup, shard, lane, options, rate, checkpoints));
  if (central_lane->facts_.has_rounds) {
    TERN_RETURN_IF_ERROR(central_lane->MakeCellsWithRounds(initial));
    central_lane->MakeRoundLane();
  } else {
    auto cells = central_lane->MakeClockCells(initial);
    if (!cells.ok()) return cells.status();
    central_lane->MakeClockLane(std::move(*cells));
  }
  return central_lane;
}

CentralLane::CentralLane(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                         const protocol::RoundLane::Options& options, const Rate& rate,
                         LaneCheckpoints& checkpoints)
    : setup_(setup),
      facts_(algorithm::FactsOf(setup.job)),
      shard_(shard),
      lane_number_(lane),
      options_(options),
      rate_(rate),
      checkpoints_(checkpoints) {
  for (const protocol::Bucket& bucket : setup_.plan.buckets) {
    for (const protocol::Chunk& chunk : bucket.chunks) {
      if (chunk.shard == shard_ && chunk.lane == lane_number_) chunks_.push_back(&chunk);
    }
  }
}

Status CentralLane::MakeCellsWithRounds(std::span<const float> initial) {
  for (const protocol::Chunk* chunk : chunks_) {
    auto made_rounds = CentralRounds::Make(setup_, *chunk, initial, rate_);
    if (!made_rounds.ok()) return made_rounds.status();
    CentralRounds* chunk_rounds = made_rounds->get();
    rounds_of_chunks_.push_back(std::move(*made_rounds));
    checkpoints_.AddCell(chunk_rounds->cell(),
                         [chunk_rounds](SavedState* state) { chunk_rounds->AddState(state); });
    chunk_rounds->SetOnClosed([this, chunk_rounds](uint64_t round) {
      checkpoints_.OnRoundClosed(chunk_rounds->cell(), round);
    });
  }
  return Ok();
}

Result<std::vector<protocol::ClockCellSpec>> CentralLane::MakeClockCells(
    std::span<const float> initial) {
  std::vector<protocol::ClockCellSpec> cells;
  rules_of_chunks_.clear();
  for (const protocol::Chunk* chunk : chunks_) {
    auto made_rule = MakeClockRule(setup_, *chunk, initial, rate_);
    if (!made_rule.ok()) return made_rule.status();
    ClockRule* rule = made_rule->get();
    rules_of_chunks_.push_back(rule);
    cells.push_back({rule->cell(), std::move(*made_rule)});
    checkpoints_.AddCell(rule->cell(), [this, rule](SavedState* state) {
      rule->AddState(state);
      AddClocksToState(rule->cell(), state);
    });
  }
  return cells;
}

void CentralLane::MakeRoundLane() {
  std::vector<protocol::CellSpec> specs;
  for (protocol::CellSpec& spec : protocol::MakeCellsOfLane(setup_.plan, shard_, lane_number_)) {
    for (const auto& chunk_rounds : rounds_of_chunks_) {
      if (chunk_rounds->cell() == spec.cell)
        specs.push_back(chunk_rounds->DescribeCell(std::move(spec)));
    }
  }
  TraceCloses(&specs);
  auto lane = std::make_unique<protocol::RoundLane>(options_, std::move(specs));
  round_lane_ = lane.get();
  lane_ = std::move(lane);
}

void CentralLane::MakeClockLane(std::vector<protocol::ClockCellSpec> cells) {
  protocol::ClockLane::Options options;
  options.workers = options_.workers;
  options.incarnation = options_.incarnation;
  options.safeguards = options_.safeguards;
  options.num_pushes = [this](uint64_t steps) {
    return facts_.PushesOfJob(steps, setup_.plan.workers);
  };
  options.max_clocks_ahead = facts_.max_steps_ahead;
  options.max_staleness = setup_.job.train().max_staleness();
  if (shard_ == 0) options.learning_rate = [this](uint64_t total) { return rate_(StepsOf(total)); };
  for (const protocol::ClockCellSpec& cell : cells) {
    protocol::CellClocks& clocks = clocks_by_cell_[cell.cell];
    clocks.counted_clocks.resize(options_.workers);
    clocks.answered_versions.resize(options_.workers);
  }
  auto lane = std::make_unique<protocol::ClockLane>(std::move(options), std::move(cells));
  clock_lane_ = lane.get();
  lane_ = std::move(lane);
}

void CentralLane::AddClocksToState(const protocol::Cell& cell, SavedState* state) {
  protocol::CellClocks& clocks = clocks_by_cell_[cell];
  clocks = clock_lane_->clocks(cell);
  state->numbers.push_back({"total", &clocks.total});
  for (size_t rank = 0; rank < clocks.counted_clocks.size(); ++rank) {
    state->numbers.push_back({Cat("counted.", rank), &clocks.counted_clocks[rank]});
    state->numbers.push_back({Cat("answered.", rank), &clocks.answered_versions[rank]});
  }
  state->numbers.push_back({"beginning", &beginning_});
}

void CentralLane::RestoreClocks() {
  for (const auto& [cell, clocks] : clocks_by_cell_) clock_lane_->Restore(cell, clocks);
}

Status CentralLane::BeginRun(uint64_t run) {
  if (run == 0 || run == run_) return checkpoints_.failure();
  const bool had_other_run = std::exchange(run_, run) != 0;
  TERN_RETURN_IF_ERROR(checkpoints_.Begin(run));
  if (clock_lane_ == nullptr) return Ok();
  if (had_other_run) TERN_RETURN_IF_ERROR(ResetToInitial());
  const std::optional<uint64_t> step = checkpoints_.LoadNewest();
  has_checkpoint_ = step.has_value();
  if (!has_checkpoint_) return Ok();
  RestoreClocks();
  LogInfo(Cat("lane ", lane_number_, " goes on from its checkpoint of step ", *step), Print::kYes);
  return Ok();
}

Status CentralLane::OnHeldOutcome() {
  if (clock_lane_ == nullptr || has_checkpoint_ || clock_lane_->lost_clocks() == 0) return Ok();
  uint64_t least_pushes = protocol::kMaxClock;  // that the earlier process had answered in a cell
  for (const auto& [cell, clocks] : clocks_by_cell_)
    least_pushes = std::min(least_pushes, clock_lane_->clocks(cell).answered_before);
  return checkpoints_.CheckNoneIsMissing(StepsOf(least_pushes));
}

void CentralLane::AfterMessages() {
  if (clock_lane_ == nullptr) return;
  const bool is_written = checkpoints_.WriteIfDue(step());
  has_checkpoint_ |= is_written && clock_lane_->lost_clocks() == 0;
}

Status CentralLane::Finish(uint64_t last_step) {
  return last_step == 0 ? Ok() : checkpoints_.FinishAt(last_step);
}

Status CentralLane::GoBack(const std::optional<pb::Checkpoint>& target) {
  if (clock_lane_ != nullptr || !target.has_value()) TERN_RETURN_IF_ERROR(ResetToInitial());
  TERN_RETURN_IF_ERROR(target.has_value() ? checkpoints_.Load(*target) : checkpoints_.RestartRun());
  has_checkpoint_ = target.has_value();
  if (clock_lane_ != nullptr) {
    RestoreClocks();
  } else {
    round_lane_->GoBack(target.has_value() ? target->round() : 0);
  }
  return Ok();
}

bool CentralLane::HasChanged() const {
  return std::any_of(rounds_of_chunks_.begin(), rounds_of_chunks_.end(),
                     [](const auto& chunk_rounds) { return chunk_rounds->round() != 0; }) ||
         std::any_of(clocks_by_cell_.begin(), clocks_by_cell_.end(), [this](const auto& entry) {
           return clock_lane_->clocks(entry.first).total != 0;
         });
}

Status CentralLane::ResetToInitial() {
  if (!HasChanged()) return Ok();
  const std::vector<float> initial = InitialWeights(setup_);
  for (const auto& chunk_rounds : rounds_of_chunks_)
    TERN_RETURN_IF_ERROR(chunk_rounds->Restart(initial));
  if (clock_lane_ == nullptr) return Ok();
  auto cells = MakeClockCells(initial);
  if (!cells.ok()) return cells.status();
  clock_lane_->GoBack(std::move(*cells));
  return Ok();
}

uint64_t CentralLane::StepsOf(uint64_t pushes) const {
  return facts_.StepsOfPushes(pushes, options_.workers);
}

CentralLane::Weights CentralLane::weights(const protocol::Cell& cell) const {
  for (const auto& chunk_rounds : rounds_of_chunks_) {
    if (chunk_rounds->cell() == cell)
      return {chunk_rounds->round(), chunk_rounds->central().weights()};
  }
  for (const ClockRule* rule : rules_of_chunks_) {
    if (rule->cell() == cell) return {rule->version(), rule->weights()};
  }
  return {};
}

uint64_t CentralLane::step() const {
  if (clock_lane_ != nullptr) return StepsOf(clock_lane_->position());
  uint64_t oldest_round = std::numeric_limits<uint64_t>::max();
  for (const auto& chunk_rounds : rounds_of_chunks_)
    oldest_round = std::min(oldest_round, chunk_rounds->round());
  return oldest_round;
}

uint64_t CentralLane::last_step() const {
  if (clock_lane_ == nullptr) return 0;
  const uint64_t pushes = clock_lane_->position(), step = StepsOf(pushes);
  const bool is_whole = step * options_.workers == pushes * facts_.period;
  return is_whole || pushes == clock_lane_->target() ? step : step + 1;
}

}  // namespace tern::server
