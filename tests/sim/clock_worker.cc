#include "tests/sim/clock_worker.h"

#include "tests/sim/world.h"

namespace tern::sim {

using protocol::Cell;
using protocol::Exchange;
using protocol::Kind;

namespace {

size_t IndexOf(const Cell& cell) { return cell.bucket * kNumChunks + cell.chunk; }

// The two counts in a cell's answer to a push, a Parting or a pull. A cell is a chunk of the
// weights on its server. `clock`: the newest clock of this worker (the number of a push, dropped or
// not, or of the Parting) that the cell knows. `total`: how many pushes of all workers the cell has
// counted, without dropped ones.
struct Counts {
  template <typename Answer>
  explicit Counts(const Answer& answer) : clock(answer.clock()), total(answer.total()) {}
  uint64_t clock = 0, total = 0;
};
Counts CountsOf(const pb::Outcome& outcome) {
  if (outcome.has_at_clock()) return Counts(outcome.at_clock());
  return outcome.has_parted() ? Counts(outcome.parted()) : Counts(outcome.pulled());
}

}  // namespace

// Called again if shard 0 removed this worker from the job and the worker then rejoined.
void ClockWorker::OnReady(uint64_t) {
  CancelTasks();
  is_told_to_stop_ = false;
  newest_counted_ = 0;
  ContributeToAll(Stage::kBegin, protocol::Pull());
}

void ClockWorker::ContributeToAll(Stage stage, protocol::Contribution contribution) {
  stage_ = stage;
  const auto* pull = std::get_if<protocol::Pull>(&contribution);
  has_asked_for_average_ = pull != nullptr && pull->wants_average;
  num_awaited_ = kNumBuckets * kNumChunks;
  auto* push = std::get_if<protocol::AtClock>(&contribution);
  for (uint32_t cell_index = 0; cell_index < kNumBuckets * kNumChunks && alive(); ++cell_index) {
    const Cell cell{Kind::kPush, cell_index / kNumChunks, cell_index % kNumChunks};
    if (push != nullptr) push->payload = EncodeWord(WordOf(cell, push->clock));
    Contribute(cell, contribution);
    if (push != nullptr) world_->OnReached(rank_, Fault::Point::kPush, push->clock);
  }
}

void ClockWorker::ExchangeFigures(Stage stage, uint32_t which) {
  stage_ = stage;
  num_awaited_ = 1;
  const Cell cell{Kind::kFigures, 0, which};
  world_->ledger().RecordContribution(cell, 1, rank_, which);
  Contribute(cell, protocol::InRound{1, EncodeWord(which)});
}

uint64_t ClockWorker::WordOf(const Cell& cell, uint64_t clock) const {
  return FloatsFromBits(Combine(Combine(process_number_, clock), IndexOf(cell)));
}

void ClockWorker::MakeStep() {
  world_->OnReached(rank_, Fault::Point::kStart, clock_ + 1);
  world_->clock_ledger().RecordClock(rank_, clock_ + 1);
  const bool wants_weights = (clock_ + 1) % world_->schedule().clocks.pull_every == 0;
  ContributeToAll(Stage::kPush, protocol::AtClock{clock_ + 1, {}, wants_weights});
}

void ClockWorker::OnAnswer(const Exchange::Delivery& answer) {
  if (num_awaited_ == 0)
    return ReportViolation(answer, "was given something that it did not ask for");
  if (answer.cell.kind == Kind::kFigures) {
    const std::string error = world_->ledger().CheckOutcome(answer, true);
    if (!error.empty()) ReportViolation(answer, "was given " + error);
  } else {
    CheckStop(answer);
    if (stage_ == Stage::kPush) {
      CheckPush(answer);
    } else if (stage_ != Stage::kParting) {
      const pb::Outcome& outcome = answer.outcome;
      if (!outcome.has_pulled()) ReportViolation(answer, "was given no answer to its pull");
      newest_counted_ = std::max<uint64_t>(newest_counted_, outcome.pulled().clock());
      StoreWeights(answer);
    }
  }
  if (--num_awaited_ == 0) OnAllAnswered();
}

void ClockWorker::OnAllAnswered() {
  switch (stage_) {
    case Stage::kBegin:
      // A worker that joins when all pushes are counted still pushes once before it is told to
      // stop.
      clock_ = newest_counted_;
      world_->clock_ledger().RecordClock(rank_, clock_);
      world_->OnReached(rank_, Fault::Point::kApplied, clock_);
      return PostTask(Task::kStep, world_->rng().Ms(1, 15));
    case Stage::kPush:
      return OnPushed();
    case Stage::kPull:
      return PostTask(Task::kStep, world_->rng().Ms(1, 15));
    case Stage::kParting:
      return ExchangeFigures(Stage::kFirstFigures, 1);
    case Stage::kFirstFigures:
      return ContributeToAll(Stage::kLastPull, protocol::Pull{world_->rng().Chance(0.5)});
    case Stage::kLastPull:
      return ExchangeFigures(Stage::kLastFigures, 2);
    case Stage::kLastFigures:
    case Stage::kIdle:
      stage_ = Stage::kIdle;
      return Finish();
  }
}

void ClockWorker::OnPushed() {
  ++clock_;
  world_->OnReached(rank_, Fault::Point::kApplied, clock_);
  if (is_told_to_stop_) return EndTraining();
  if (world_->rng().Chance(0.2))
    return ContributeToAll(Stage::kPull, protocol::Pull{world_->rng().Chance(0.3)});
  PostTask(Task::kStep, world_->rng().Ms(1, world_->rng().Chance(0.1) ? 100 : 15));
}

void ClockWorker::EndTraining() {
  if (!world_->schedule().clocks.bound.has_value()) return ExchangeFigures(Stage::kFirstFigures, 1);
  // After its Parting (the message that it pushes no more), no other worker waits for this worker.
  world_->clock_ledger().RecordParting(rank_);
  ContributeToAll(Stage::kParting, protocol::Parting{clock_ + 1});
}

void ClockWorker::CheckStop(const Exchange::Delivery& answer) {
  const Counts counts = CountsOf(answer.outcome);
  const bool are_all_counted = counts.total >= world_->schedule().clocks.pushes;
  const bool says_stop = protocol::LastExchangeOf(answer.outcome) != 0;
  if (says_stop) is_told_to_stop_ = true;
  if (says_stop && !are_all_counted && !world_->stopped())
    ReportViolation(answer, "is told to stop after " + std::to_string(counts.total) + " pushes");
  if (!says_stop && are_all_counted && counts.clock != 0)
    ReportViolation(answer, "is not told to stop");
}

void ClockWorker::CheckPush(const Exchange::Delivery& answer) {
  const pb::Outcome::AtClock& outcome = answer.outcome.at_clock();
  const uint64_t max_staleness = world_->schedule().clocks.max_staleness;
  if (outcome.clock() != clock_ + 1)
    return ReportViolation(answer, "was given no answer to its push");
  const bool was_counted =
      world_->clock_ledger().WasCounted(answer.cell, WordOf(answer.cell, clock_ + 1));
  // After a server restart, clock_ledger(), the record of all counted pushes, may disagree with the
  // answer: the previous server process may have counted a push that the new server process drops,
  // or the reverse. And after a restart of shard 0, the first server, a worker process may get back
  // a rank that another process had in the meantime.
  const Schedule& schedule = world_->schedule();
  const bool may_differ =
      schedule.HasFaultOfKind(Fault::Kind::kKillServer) &&
      (max_staleness != 0 || schedule.HasFaultOfKind(Fault::Kind::kReplaceWorker));
  if (!may_differ && was_counted == outcome.dropped())
    ReportViolation(answer, was_counted ? "is counted" : "is not counted");
  if (outcome.dropped() != (max_staleness != 0 && outcome.staleness() > max_staleness))
    ReportViolation(answer, "has staleness " + std::to_string(outcome.staleness()));
  if (!outcome.has_weights()) return;  // the push did not ask for weights
  StoreWeights(answer);
  if (!outcome.stop()) CheckBound(answer);
}

// Checks the bound of ssp: no worker continues if it would be more than `bound` clocks ahead of the
// slowest worker. Dead workers count until they are removed. If the job removes lost workers
// (Schedule::shrinks), workers that a fault hit are left out, because they may have been removed.
void ClockWorker::CheckBound(const Exchange::Delivery& answer) {
  const Schedule& schedule = world_->schedule();
  if (!schedule.clocks.bound.has_value()) return;
  for (uint32_t other = 0; other < schedule.workers; ++other) {
    // A worker that is asked to stop while shard 0 is down ends without telling anybody.
    const bool may_have_left = world_->HasFaultFor(other) || world_->stopped();
    if (world_->clock_ledger().HasParted(other) || (schedule.shrinks() && may_have_left)) continue;
    const uint64_t other_clock = world_->clock_ledger().clock(other);
    const uint64_t clock = protocol::ExchangeOf(answer.outcome);
    if (clock > other_clock + *schedule.clocks.bound) {
      ReportViolation(answer, "was answered at clock " + std::to_string(clock) + ", worker " +
                                  std::to_string(other) + " at " + std::to_string(other_clock));
    }
  }
}

void ClockWorker::StoreWeights(const Exchange::Delivery& answer) {
  const std::vector<uint64_t> words = DecodeWords(answer.payload);
  if (words.size() != 1) return ReportViolation(answer, "was given no weights");
  if (answer.outcome.pulled().has_average() != has_asked_for_average_)
    return ReportViolation(answer, "was given other weights");
  if (has_asked_for_average_) return;
  const pb::Outcome::Weights& weights = *protocol::WeightsOf(answer.outcome);
  const bool is_change = world_->schedule().sends_changes && !weights.whole();
  uint64_t& stored_word = weights_[IndexOf(answer.cell)];
  stored_word = is_change ? AddFloats(stored_word, words[0]) : words[0];
  // In asynchronous EASGD the answer to a push contains the central weights before that push.
  const bool shows_earlier_weights =
      world_->schedule().algorithm == "easgd_async" && weights.version() != 0;
  if (!world_->clock_ledger().HadWeights(answer.cell, {weights.version(), stored_word}) &&
      !(shows_earlier_weights &&
        world_->clock_ledger().HadWeights(answer.cell, {weights.version() - 1, stored_word})))
    ReportViolation(answer, "was given weights that never were");
}

void ClockWorker::ReportViolation(const Exchange::Delivery& answer, const std::string& what) {
  ToyWorker::ReportViolation(
      what + ": " + ToString(answer.cell, protocol::ExchangeOf(answer.outcome), "exchange"));
}

}  // namespace tern::sim
