#include "tests/sim/round_worker.h"

#include <algorithm>
#include <utility>

#include "tests/sim/world.h"

namespace tern::sim {

using protocol::Cell;
using protocol::Kind;

namespace {

constexpr Cell kFiguresCell{Kind::kFigures, 0, 0};

}  // namespace

RoundWorker::RoundWorker(World* world, uint32_t process, uint32_t rank, uint64_t incarnation)
    : ToyWorker(world, process, rank, incarnation) {
  replica_.newest = replica_.previous = InitialState(world->schedule());
}

bool RoundWorker::HasRightState() const {
  return has_flipped_bit_ || world_->IsRightState(applied_, replica_.newest);
}

bool RoundWorker::FlipBit() {
  if (!ready() || awaits_last_figures_ || leaving() || applied_ >= last_step_round()) return false;
  replica_.newest[0] ^= 1;
  return has_flipped_bit_ = true;
}

void RoundWorker::OnInstall(const Bytes& state) {
  replica_ = DecodeReplica(state);
  has_flipped_bit_ = false;
  newest_begun_round_ = applied_;
  rounds_.clear();
  awaits_last_figures_ = is_computing_ = false;
  figures_round_ = 0;
  if (!HasRightState()) ReportViolation("was given a wrong state");
}

void RoundWorker::OnGoBack() {
  newest_begun_round_ = applied_;
  rounds_.clear();
  awaits_last_figures_ = is_computing_ = false;
  figures_round_ = 0;
  num_awaited_ = kNumBuckets * kNumChunks;
  for (uint32_t cell = 0; cell < kNumBuckets * kNumChunks && alive(); ++cell)
    Contribute({Kind::kPush, cell / kNumChunks, cell % kNumChunks}, protocol::Pull());
}

void RoundWorker::OnPulled(const protocol::Exchange::Delivery& answer) {
  const std::vector<uint64_t> words = DecodeWords(answer.payload);
  if (num_awaited_ == 0 || words.size() != 1)
    return ReportViolation("was given weights that it did not ask");
  const size_t cell = answer.cell.bucket * kNumChunks + answer.cell.chunk;
  replica_.previous[cell] = replica_.newest[cell] = words[0];
  if (--num_awaited_ != 0) return;
  if (!HasRightState()) ReportViolation("went back to a wrong state");
  PostTask(Task::kInstalled, world_->rng().Ms(0, 30));
}

void RoundWorker::OnReady(uint64_t stop_after) {
  stop_after_ = stop_after;
  ContributeFigures();
  ApplyAndStep();
}

bool RoundWorker::IsCheckpointDue(uint64_t round) const {
  const uint64_t checkpoint_every = world_->schedule().checkpoint_every;
  return checkpoint_every != 0 && (round % checkpoint_every == 0 || round == save_after_);
}

uint64_t RoundWorker::last_step_round() const {
  const Schedule& schedule = world_->schedule();
  const uint64_t steps_end = schedule.exchanges_parts ? schedule.rounds - 1 : schedule.rounds;
  const uint64_t last_step = stop_after_ == 0 ? steps_end : std::min(steps_end, stop_after_);
  return schedule.exchanges_parts ? last_step / 2 * 2 : last_step;
}

bool RoundWorker::IsDone() const {
  return applied_ >= last_step_round() &&
         (!world_->schedule().exchanges_parts || applied_ % 2 == 1);
}

void RoundWorker::ContributeFigures() {
  const bool are_due = awaits_last_figures_ || (HasFiguresAfter(applied_) && !IsDone());
  if (!are_due || figures_round_ == applied_ + 1) return;
  figures_round_ = applied_ + 1;
  ContributeWord(kFiguresCell, figures_round_, 0, DigestOfState(replica_.newest));
}

void RoundWorker::ApplyAndStep() {
  while (alive() && !is_computing_ && ApplyNextRound()) {
  }
  if (!alive() || awaits_last_figures_ || is_computing_) return;
  if (IsDone()) {
    awaits_last_figures_ = true;
    ContributeFigures();  // the figures of the last evaluation, which uses the final weights
    return FinishIfDone();
  }
  const Schedule& schedule = world_->schedule();
  newest_begun_round_ = std::max(newest_begun_round_, applied_);
  if (schedule.exchanges_parts ? newest_begun_round_ > applied_
                               : newest_begun_round_ >= applied_ + schedule.window ||
                                     newest_begun_round_ >= last_step_round())
    return;
  // A step after which a checkpoint is due must be applied before the next step begins.
  if (newest_begun_round_ > applied_ && IsCheckpointDue(newest_begun_round_)) return;
  is_computing_ = true;
  PostTask(Task::kStep, world_->rng().Ms(1, world_->rng().Chance(0.1) ? 100 : 15));
}

void RoundWorker::MakeStep() {
  is_computing_ = false;
  const uint64_t round = newest_begun_round_ =
      NextRound(world_->schedule(), newest_begun_round_, last_step_round());
  world_->OnReached(rank_, Fault::Point::kStart, round);
  for (uint32_t b = 0; b < kNumBuckets && alive(); ++b) {
    if (!IsExchanged(world_->schedule(), round, b)) continue;
    ContributeWord({Kind::kScale, b, 0}, round, 0,
                   ScalerOf(rank_, round, b, GradientStateOf(round)));
    // The scalers of this round may have been exchanged without this worker.
    if (rounds_[round].has_largest_scaler[b]) PushBucket(round, b);
  }
  ApplyAndStep();
}

const State& RoundWorker::GradientStateOf(uint64_t round) const {
  static constexpr State kNoState{};
  if (!world_->schedule().gradient_uses_state()) return kNoState;
  const bool uses_newest = round > applied_ + 1 || world_->schedule().window == 1 || applied_ == 0;
  return uses_newest ? replica_.newest : replica_.previous;
}

void RoundWorker::PushBucket(uint64_t round, uint32_t bucket) {
  const uint64_t largest_scaler = rounds_[round].largest_scalers[bucket];
  world_->OnReached(rank_, Fault::Point::kPush, round);
  for (uint32_t c = 0; c < kNumChunks && alive(); ++c) {
    ContributeWord({Kind::kPush, bucket, c}, round, Mix(largest_scaler) | 1,
                   PushOf(world_->schedule(), rank_, round, bucket, c, GradientStateOf(round),
                          largest_scaler));
  }
}

void RoundWorker::ContributeWord(const Cell& cell, uint64_t round, uint64_t digest, uint64_t word) {
  if (cell.kind != Kind::kFigures && world_->schedule().has_skips && SkipsRound(rank_, round))
    return Contribute(cell, protocol::Skip{round});
  world_->ledger().RecordContribution(cell, round, rank_, word);
  Contribute(cell, protocol::InRound{round, EncodeWord(word), digest});
}

void RoundWorker::OnAnswer(const protocol::Exchange::Delivery& answer) {
  if (answer.outcome.has_pulled()) return OnPulled(answer);
  const pb::Outcome::OfRound& outcome = answer.outcome.of_round();
  CheckAnswer(answer);
  if (outcome.stop_after() != 0) stop_after_ = outcome.stop_after();
  save_after_ = std::max(save_after_, outcome.checkpoint_after());
  Round& round = rounds_[outcome.round()];
  switch (answer.cell.kind) {
    case Kind::kScale:
      if (std::exchange(round.has_largest_scaler[answer.cell.bucket], true))
        ReportViolation("was told twice");
      round.largest_scalers[answer.cell.bucket] = DecodeWord(answer.payload);
      if (newest_begun_round_ >= outcome.round()) PushBucket(outcome.round(), answer.cell.bucket);
      break;
    case Kind::kPush:
      round.sums[answer.cell.bucket * kNumChunks + answer.cell.chunk] = answer.payload;
      ++round.num_answers;
      break;
    case Kind::kFigures:
      round.figures = answer.payload;
      if (awaits_last_figures_) return FinishIfDone();
      ++round.num_answers;
      break;
  }
  if (alive()) ApplyAndStep();
}

void RoundWorker::CheckAnswer(const protocol::Exchange::Delivery& answer) {
  const uint64_t round = answer.outcome.of_round().round();
  if (round <= applied_) ReportViolation("was given an answer of round " + std::to_string(round));
  const bool is_sum = answer.cell.kind != Kind::kPush || !world_->schedule().is_central;
  const std::string error = world_->ledger().CheckOutcome(answer, is_sum);
  if (!error.empty()) ReportViolation("was given " + ToString(answer.cell, round) + ": " + error);
  const bool tells_learning_rate = world_->layout().LaneOf(answer.cell).shard == 0;
  if (answer.cell.kind == Kind::kPush && tells_learning_rate &&
      answer.outcome.learning_rate() != LearningRate(world_->schedule(), round)) {
    ReportViolation("was told a wrong learning rate");
  }
  if (!world_->schedule().is_deterministic()) return;
  uint32_t num_expected_contributors = 0;
  for (uint32_t rank = 0; rank < world_->schedule().workers; ++rank) {
    const bool may_skip = answer.cell.kind != Kind::kFigures && world_->schedule().has_skips;
    num_expected_contributors += !may_skip || !SkipsRound(rank, round);
  }
  if (answer.outcome.of_round().contributors() != num_expected_contributors)
    ReportViolation("was given a sum over others than all");
}

bool RoundWorker::ApplyNextRound() {
  const Schedule& schedule = world_->schedule();
  const uint64_t next_round = NextRound(schedule, applied_, last_step_round());
  const auto entry = rounds_.find(next_round);
  if (entry == rounds_.end() || awaits_last_figures_ || IsDone()) return false;
  const bool has_figures = HasFiguresAfter(applied_);
  uint32_t num_expected_answers = has_figures ? 1 : 0;
  for (uint32_t b = 0; b < kNumBuckets; ++b)
    num_expected_answers += IsExchanged(schedule, next_round, b) ? kNumChunks : 0;
  if (entry->second.num_answers != num_expected_answers) return false;
  if (has_figures) CheckFigures(entry->second.figures);
  replica_.previous = replica_.newest;
  ApplyAnswers(entry->second);
  rounds_.erase(rounds_.begin(), rounds_.upper_bound(next_round));
  SetApplied(next_round);
  if (!HasRightState())
    ReportViolation("has a wrong state after round " + std::to_string(applied_));
  world_->OnReached(rank_, Fault::Point::kApplied, applied_);
  if (IsCheckpointDue(applied_)) WriteCheckpoint(replica_);
  if (rank_ == 0 && applied_ % 2 == 0) RequestCheckpoint();
  ContributeFigures();
  return true;
}

void RoundWorker::ApplyAnswers(const Round& round) {
  for (size_t cell = 0; cell < round.sums.size(); ++cell) {
    // The answer is empty if the round did not exchange the chunk or no worker contributed to it.
    if (round.sums[cell].empty()) continue;
    const std::vector<uint64_t> words = DecodeWords(round.sums[cell]);
    uint64_t& state_word = replica_.newest[cell];
    if (!world_->schedule().is_central) {
      state_word = Combine(state_word, words[0]);
    } else {
      state_word = world_->schedule().sends_changes ? AddFloats(state_word, words[0]) : words[0];
    }
  }
}

void RoundWorker::CheckFigures(const Bytes& figures) {
  // The digest that this worker sent before a bit flipped is no longer known.
  const std::string digest(
      EncodeWord(has_flipped_bit_ ? DecodeWord(figures) : DigestOfState(replica_.newest)).view());
  std::string expected;
  while (expected.size() < figures.size()) expected += digest;
  if (figures.empty() || figures.view() != expected)
    ReportViolation("finds that the replicas differ");
}

void RoundWorker::FinishIfDone() {
  const auto round_entry = rounds_.find(applied_ + 1);
  if (round_entry == rounds_.end() || round_entry->second.figures.empty()) return;
  CheckFigures(round_entry->second.figures);
  rounds_.clear();
  Finish();
}

}  // namespace tern::sim
