#include "server/lane_checkpoints.h"

#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"
#include "setup/saved.h"

namespace tern::server {

namespace {

SavedState Named(const protocol::Cell& cell, const LaneCheckpoints::State& state) {
  SavedState saved;
  state(&saved);
  const std::string prefix = Cat(cell.bucket, ".", cell.chunk, ".");
  for (SavedState::Array& array : saved.arrays) array.name = prefix + array.name;
  for (SavedState::Number& number : saved.numbers) number.name = prefix + number.name;
  return saved;
}

}  // namespace

LaneCheckpoints::LaneCheckpoints(const setup::Setup& setup, uint32_t shard, uint32_t lane)
    : setup_(setup),
      facts_(algorithm::FactsOf(setup.job)),
      every_(setup.job.checkpoints().every_steps()),
      store_(setup::CheckpointOwner(setup, setup.job.output_dir(),
                                    Cat("shard.", shard, ".lane.", lane)),
             setup.job.checkpoints().keep()) {
  for (const std::string& sentence : store_.Open()) LOG(WARNING) << sentence;
  if (setup.job.checkpoints().resume()) UpdateSaved();
}

void LaneCheckpoints::AddCell(const protocol::Cell& cell, State state) {
  cells_[cell] = std::move(state);
}

uint64_t LaneCheckpoints::StepOf(uint64_t round) const { return facts_.StepOfRound(round); }

bool LaneCheckpoints::IsDue(uint64_t round) const {
  return StepOf(round) / every_ > StepOf(round - 1) / every_;
}

Status LaneCheckpoints::Begin(uint64_t run) {
  if (run == 0 || run == run_) return failure();
  run_ = run;
  return cells_.empty() ? Ok() : BeginRun(run, false);
}

Status LaneCheckpoints::BeginRun(uint64_t run, bool anew) {
  const Result<std::string> aside = store_.Begin(run, anew);
  if (!aside.ok()) {
    const std::lock_guard lock(mutex_);
    return failure_ = aside.status();
  }
  if (!aside->empty()) LOG(WARNING) << *aside;
  UpdateSaved();
  return Ok();
}

void LaneCheckpoints::Copy(const protocol::Cell& cell, Open* to) const {
  const SavedState saved = Named(cell, cells_.at(cell));
  for (const SavedState::Array& array : saved.arrays) {
    to->tensors.push_back(
        {array.name, {array.values.size()}, {array.values.begin(), array.values.end()}});
  }
  for (const SavedState::Number& number : saved.numbers)
    to->metadata[number.name] = std::to_string(*number.value);
  ++to->cells;
}

void LaneCheckpoints::OnClosed(const protocol::Cell& cell, uint64_t round) {
  closed_[cell] = round;
  if (run_ == 0 || !IsDue(round)) return;
  Open& open = open_[round];
  Copy(cell, &open);
  if (open.cells < cells_.size()) return;
  Write({run_, StepOf(round), round}, open);
  open_.erase(open_.begin(), open_.upper_bound(round));
}

void LaneCheckpoints::WriteIfDue(uint64_t step) {
  if (step >= next_) WriteNow(step - step % every_);
}

void LaneCheckpoints::WriteNow(uint64_t step) {
  if (run_ == 0 || cells_.empty()) return;
  next_ = step - step % every_ + every_;
  if (step == 0) return;
  Open open;
  for (const auto& [cell, state] : cells_) Copy(cell, &open);
  Write({run_, step, 0}, open);
}

void LaneCheckpoints::Write(const checkpoint::Point& point, const Open& open) {
  std::vector<tensors::TensorView> views;
  for (const tensors::Tensor& tensor : open.tensors)
    views.push_back({tensor.name, tensor.shape, tensor.values});
  const Status written = store_.Write(point, views, open.metadata);
  if (!written.ok())
    LOG(ERROR) << "no checkpoint of step " << point.step << ": " << written.message();
  UpdateSaved();
}

Status LaneCheckpoints::GoBack(uint64_t round) { return GoBackTo({run_, StepOf(round), round}); }

Status LaneCheckpoints::GoBackTo(const checkpoint::Point& point) {
  open_.clear();
  closed_.clear();
  next_ = point.step + every_ - point.step % every_;
  if (point.step == 0 && run_ != 0) return BeginRun(run_, true);
  store_.RemoveAfter(point);
  UpdateSaved();
  return Ok();
}

Status LaneCheckpoints::Load(const pb::Checkpoint& from) {
  if (cells_.empty()) return Ok();
  const checkpoint::Point point{from.run(), from.step(), from.round()};
  const auto file = store_.Read(point);
  if (!file.ok()) return file.status();
  SavedState all;
  for (const auto& [cell, state] : cells_) {
    const SavedState saved = Named(cell, state);
    all.arrays.insert(all.arrays.end(), saved.arrays.begin(), saved.arrays.end());
    all.numbers.insert(all.numbers.end(), saved.numbers.begin(), saved.numbers.end());
  }
  TERN_RETURN_IF_ERROR(checkpoint::Restore(*file, all));
  run_ = from.run();
  TERN_RETURN_IF_ERROR(GoBackTo(point));
  LOG(WARNING) << "goes on from the checkpoint of step " << from.step();
  return Ok();
}

void LaneCheckpoints::Finish() {
  if (run_ == 0 || closed_.size() < cells_.size() || cells_.empty()) return;
  const uint64_t round = closed_.begin()->second;
  Open open;
  for (const auto& [cell, newest] : closed_) {
    if (newest != round) return;
    Copy(cell, &open);
  }
  Write({run_, StepOf(round), round}, open);
}

void LaneCheckpoints::UpdateSaved() {
  protocol::Saved saved = setup::FindSaved(setup_, store_);
  const std::lock_guard lock(mutex_);
  saved_ = std::move(saved);
}

protocol::Saved LaneCheckpoints::Saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

Status LaneCheckpoints::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace tern::server
