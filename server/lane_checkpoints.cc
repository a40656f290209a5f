#include "server/lane_checkpoints.h"

#include <algorithm>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"
#include "setup/saved.h"

namespace tern::server {

using checkpoint::Kind;

namespace {

// The state of a cell, with the cell's bucket and chunk before every name.
SavedState StateOfCell(const protocol::Cell& cell, const LaneCheckpoints::StateAdder& add_state) {
  SavedState saved;
  add_state(&saved);
  const std::string prefix = Cat(cell.bucket, ".", cell.chunk, ".");
  for (SavedState::Array& array : saved.arrays) array.name = prefix + array.name;
  for (SavedState::Number& number : saved.numbers) number.name = prefix + number.name;
  return saved;
}

// A lane keeps the state of its own chunks, and no other division of the model has these.
checkpoint::Owner OwnerOf(const setup::Setup& setup, uint32_t shard, uint32_t lane) {
  checkpoint::Owner owner =
      setup::CheckpointOwner(setup, setup.job.output_dir(), Cat("shard.", shard, ".lane.", lane));
  if (owner.other_layout == checkpoint::OtherLayout::kTaken)
    owner.other_layout = checkpoint::OtherLayout::kLeftOver;
  return owner;
}

// The interval, in steps, of a shard's own checkpoints; 0: it writes none.
uint64_t ShardEverySteps(const setup::Setup& setup) {
  return setup.plan.is_central ? setup.job.checkpoints().shard_every_steps() : 0;
}

checkpoint::NumKept NumbersToKeep(const setup::Setup& setup) {
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  const pb::Checkpoints& keys = setup.job.checkpoints();
  checkpoint::NumKept numbers{.num_of_all = setup::NumCheckpointsToKeep(setup), .num_of_shard = 0};
  if (ShardEverySteps(setup) == 0) return numbers;
  const uint64_t interval = std::max<uint64_t>(ShardEverySteps(setup), facts.period);
  const uint64_t least_kept = protocol::MinCheckpointsToKeep(interval, facts.window * facts.period);
  numbers.num_of_shard = std::max(keys.shard_keep(), static_cast<uint32_t>(least_kept));
  return numbers;
}

// If the folder was prepared for `run`, and all its checkpoints are damaged: why the newest is not
// usable. Else empty.
std::string WhyAllAreDamaged(const checkpoint::Store& store, uint64_t run) {
  const auto is_of_run = [run](const checkpoint::Point& point) { return point.run == run; };
  if (store.own_recorded_run() != run ||
      std::any_of(store.points().begin(), store.points().end(), is_of_run))
    return "";
  const std::vector<checkpoint::RefusedCheckpoint>& refused = store.refused_checkpoints();
  const auto newest = std::find_if(refused.rbegin(), refused.rend(), [](const auto& checkpoint) {
    return !checkpoint.is_foreign && !checkpoint.is_left_over;
  });
  if (newest == refused.rend()) return "";
  return Cat("no checkpoint of this run in ", store.folder(), " is whole; the newest is of step ",
             newest->step, ": ", newest->reason);
}

std::string TextOfLast(uint64_t step) { return Cat("the last checkpoint, of step ", step); }

// Whether (from, to] contains a multiple of `every`; false if `every` is 0.
bool ContainsMultiple(uint64_t every, uint64_t from, uint64_t to) {
  return every != 0 && to / every > from / every;
}

}  // namespace

bool IsCheckpointDueWithin(const setup::Setup& setup, uint64_t first_round, uint64_t last_round) {
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  return ContainsMultiple(setup.job.checkpoints().every_steps(), facts.StepOfRound(first_round - 1),
                          facts.StepOfRound(last_round));
}

LaneCheckpoints::LaneCheckpoints(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                                 Storage& storage)
    : setup_(setup),
      facts_(algorithm::FactsOf(setup.job)),
      every_steps_(setup.job.checkpoints().every_steps()),
      shard_every_steps_(ShardEverySteps(setup)),
      store_(OwnerOf(setup, shard, lane), NumbersToKeep(setup), storage) {
  for (const std::string& sentence : store_.Open()) LOG(WARNING) << sentence;
  UpdateSaved();
}

void LaneCheckpoints::AddCell(const protocol::Cell& cell, StateAdder add_state) {
  state_adder_by_cell_[cell] = std::move(add_state);
}

std::optional<Kind> LaneCheckpoints::KindDueAfter(uint64_t round) const {
  const uint64_t step_before = facts_.StepOfRound(round - 1),
                 step_after = facts_.StepOfRound(round);
  if (ContainsMultiple(every_steps_, step_before, step_after)) return Kind::kOfAll;
  const uint64_t last_end = facts_.LastRoundEnd(steps_);
  const bool is_before_cut_round =
      step_before < last_end && step_after == last_end && last_end != steps_;
  if (every_steps_ != 0 && (round == requested_round_ || is_before_cut_round)) return Kind::kOfAll;
  if (ContainsMultiple(shard_every_steps_, step_before, step_after)) return Kind::kShard;
  return std::nullopt;
}

Status LaneCheckpoints::Begin(uint64_t run) {
  if (run == 0 || run == run_) return failure();
  run_ = run;
  if (state_adder_by_cell_.empty()) return Ok();
  was_prepared_ = store_.own_recorded_run() == run;
  if (!facts_.has_rounds) {
    if (const std::string why = WhyAllAreDamaged(store_, run); !why.empty())
      return Fail(Status(Code::kBadData, why + protocol::HowToRestore()));
  }
  return PrepareFolder(run, false);
}

Status LaneCheckpoints::Fail(Status why) {
  const MutexLock lock(mutex_);
  return failure_ = std::move(why);
}

Status LaneCheckpoints::CheckNoneIsMissing(uint64_t step) {
  uint64_t interval = shard_every_steps_ == 0 ? every_steps_ : shard_every_steps_;
  if (every_steps_ != 0) interval = std::min(interval, every_steps_);
  // A process that prepared the folder may have died while it wrote its first checkpoint.
  const uint64_t num_due = was_prepared_ ? 2 : 1;
  if (interval == 0 || step < num_due * interval) return Ok();
  if (!was_prepared_) store_.ForgetRun();
  return Fail(
      Status(Code::kBadData, Cat("no usable checkpoint of this run is in ", store_.folder(),
                                 ", while workers have its answers up to step ", step,
                                 ", and the job writes a checkpoint every ", interval,
                                 interval == 1 ? " step" : " steps", protocol::HowToRestore())));
}

Status LaneCheckpoints::RestartRun() { return run_ == 0 ? Ok() : PrepareFolder(run_, true); }

Status LaneCheckpoints::PrepareFolder(uint64_t run, bool is_restart) {
  incomplete_snapshot_by_round_.clear();
  closed_round_by_cell_.clear();
  newest_step_ = requested_round_ = begun_step_ = 0;
  const Result<std::string> move_sentence = store_.Begin(run, is_restart);
  if (!move_sentence.ok()) return Fail(move_sentence.status());
  if (!move_sentence->empty()) LOG(WARNING) << *move_sentence;
  UpdateSaved();
  return Ok();
}

void LaneCheckpoints::AddCellTo(const protocol::Cell& cell, Snapshot* snapshot) const {
  const SavedState saved = StateOfCell(cell, state_adder_by_cell_.at(cell));
  for (const SavedState::Array& array : saved.arrays) {
    snapshot->tensors.push_back(
        {array.name, {array.values.size()}, {array.values.begin(), array.values.end()}});
  }
  for (const SavedState::Number& number : saved.numbers)
    snapshot->metadata[number.name] = std::to_string(*number.value);
  ++snapshot->num_cells;
}

void LaneCheckpoints::OnRoundClosed(const protocol::Cell& cell, uint64_t round) {
  closed_round_by_cell_[cell] = round;
  const std::optional<Kind> kind = KindDueAfter(round);
  if (run_ == 0 || !kind.has_value()) return;
  Snapshot& snapshot = incomplete_snapshot_by_round_[round];
  AddCellTo(cell, &snapshot);
  if (snapshot.num_cells < state_adder_by_cell_.size()) return;
  const uint64_t step = facts_.StepOfRound(round);
  const Status write_status = Write({run_, step, round}, *kind, snapshot);  // The job goes on.
  if (*kind == Kind::kOfAll) {
    begun_step_ = step;
    write_status_ = write_status;
  }
  incomplete_snapshot_by_round_.erase(incomplete_snapshot_by_round_.begin(),
                                      incomplete_snapshot_by_round_.upper_bound(round));
}

bool LaneCheckpoints::WriteIfDue(uint64_t step) {
  if (ContainsMultiple(every_steps_, newest_step_, step)) {
    (void)WriteAll(step - step % every_steps_, 0, Kind::kOfAll);  // If that fails, the job goes on.
    return true;
  }
  const bool is_due = ContainsMultiple(shard_every_steps_, newest_step_, step);
  if (is_due) (void)WriteAll(step - step % shard_every_steps_, 0, Kind::kShard);
  return is_due;
}

Status LaneCheckpoints::FinishAt(uint64_t step) {
  if (every_steps_ == 0 || run_ == 0 || state_adder_by_cell_.empty() || !failure().ok())
    return Ok();
  if (!facts_.has_rounds) {
    const Result<std::string> move_sentence = store_.RemoveAfter({run_, step, 0});
    if (!move_sentence.ok()) {
      LOG(ERROR) << move_sentence.status().message();
    } else if (!move_sentence->empty()) {
      LOG(WARNING) << *move_sentence;
    }
    return WriteAll(step, 0, Kind::kOfAll).Within(TextOfLast(step));
  }
  if (step == begun_step_) return write_status_.Within(TextOfLast(step));
  const uint64_t round = closed_round_by_cell_.empty() ? 0 : closed_round_by_cell_.begin()->second;
  const bool have_all_closed =
      closed_round_by_cell_.size() == state_adder_by_cell_.size() &&
      std::all_of(closed_round_by_cell_.begin(), closed_round_by_cell_.end(),
                  [round](const auto& closed) { return closed.second == round; });
  if (!have_all_closed || round != facts_.RoundOfStep(step)) return Ok();
  return WriteAll(step, round, Kind::kOfAll).Within(TextOfLast(step));
}

Status LaneCheckpoints::WriteAll(uint64_t step, uint64_t round, Kind kind) {
  if (run_ == 0 || state_adder_by_cell_.empty() || !failure().ok()) return Ok();
  newest_step_ = step;
  Snapshot snapshot;
  for (const auto& [cell, add_state] : state_adder_by_cell_) AddCellTo(cell, &snapshot);
  return Write({run_, step, round}, kind, snapshot);
}

Status LaneCheckpoints::Write(const checkpoint::Point& point, Kind kind, const Snapshot& snapshot) {
  std::vector<tensors::TensorView> views;
  for (const tensors::Tensor& tensor : snapshot.tensors)
    views.push_back({tensor.name, tensor.shape, tensor.values});
  const Status write_status = store_.Write(point, kind, views, snapshot.metadata);
  if (!write_status.ok()) {
    ++num_failed_;
    LOG(ERROR) << "no checkpoint of step " << point.step << ": " << write_status.message();
  }
  UpdateSaved();
  return write_status;
}

Status LaneCheckpoints::LoadPoint(const checkpoint::Point& point) {
  const auto checkpoint_file = store_.Read(point);
  if (!checkpoint_file.ok()) return checkpoint_file.status();
  SavedState state_of_cells;
  for (const auto& [cell, add_state] : state_adder_by_cell_) {
    const SavedState saved = StateOfCell(cell, add_state);
    state_of_cells.arrays.insert(state_of_cells.arrays.end(), saved.arrays.begin(),
                                 saved.arrays.end());
    state_of_cells.numbers.insert(state_of_cells.numbers.end(), saved.numbers.begin(),
                                  saved.numbers.end());
  }
  TERN_RETURN_IF_ERROR(checkpoint::RestoreState(*checkpoint_file, state_of_cells));
  run_ = point.run;
  newest_step_ = point.step;
  requested_round_ = begun_step_ = 0;
  incomplete_snapshot_by_round_.clear();
  closed_round_by_cell_.clear();
  const Result<std::string> move_sentence = store_.RemoveAfter(point);
  if (!move_sentence.ok()) return move_sentence.status();
  if (!move_sentence->empty()) LOG(WARNING) << *move_sentence;
  UpdateSaved();
  return Ok();
}

void LaneCheckpoints::ClearState() {
  for (const auto& [cell, add_state] : state_adder_by_cell_) {
    const SavedState state = StateOfCell(cell, add_state);
    for (const SavedState::Array& array : state.arrays)
      std::fill(array.values.begin(), array.values.end(), 0.f);
    for (const SavedState::Number& number : state.numbers) *number.value = 0;
  }
}

Status LaneCheckpoints::Load(const pb::Checkpoint& from) {
  if (state_adder_by_cell_.empty()) return Ok();
  if (from.has_shards()) {
    LOG(WARNING) << "the model was divided over the server shards otherwise before; dropped: "
                 << protocol::kServersCodecState;
    ClearState();
    return RestartRun();
  }
  if (const Status load_status = LoadPoint({from.run(), from.step(), from.round()});
      !load_status.ok())
    return Fail(load_status);
  LogInfo(Cat("goes on from the checkpoint of step ", from.step()), Print::kYes);
  return Ok();
}

std::optional<uint64_t> LaneCheckpoints::LoadNewest() {
  const std::vector<checkpoint::Point> points = store_.points();  // by ascending step
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    if (point->run != run_) continue;
    const Status load_status = LoadPoint(*point);
    if (load_status.ok()) return point->step;
    LOG(ERROR) << "the checkpoint of step " << point->step
               << " is not used: " << load_status.message();
  }
  return std::nullopt;
}

void LaneCheckpoints::UpdateSaved() {
  protocol::SavedCheckpoints saved = setup::FindSaved(setup_, store_);
  // With resume: false no new run uses the checkpoints, but a run under way does.
  if (run_ == 0 && !setup_.job.checkpoints().resume()) {
    std::vector<pb::Checkpoint> checkpoints = std::move(saved.checkpoints);
    saved = {.checkpoints = {},
             .unfit = {},
             .prepared_run = saved.prepared_run,
             .unfit_in_run = saved.unfit_in_run};
    const std::vector<pb::Checkpoint> shard_only_checkpoints =
        setup::OffersOf(store_, Kind::kShard);
    checkpoints.insert(checkpoints.end(), shard_only_checkpoints.begin(),
                       shard_only_checkpoints.end());
    saved.shard_checkpoints = std::move(checkpoints);
  }
  saved.num_failed = num_failed_;
  const MutexLock lock(mutex_);
  saved_ = std::move(saved);
}

protocol::SavedCheckpoints LaneCheckpoints::Saved() const {
  const MutexLock lock(mutex_);
  return saved_;
}

Status LaneCheckpoints::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

}  // namespace tern::server
