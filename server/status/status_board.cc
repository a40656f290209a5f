#include "server/status/status_board.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/algorithm/facts.h"
#include "common/base/text.h"
#include "common/protocol/rounds/cells.h"
#include "setup/report.h"

namespace tern::server {

namespace {

constexpr size_t kMaxEventBytes = 400;
constexpr Time kSpeedWindow = std::chrono::seconds(30);
constexpr size_t kMaxPositions = 128;
constexpr double kMaxAge_s = 1e9;  // of a checkpoint; a worker that says more is not believed

double UnixTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<double> SecondsOf(std::optional<Time> time) {
  return time.has_value() ? std::optional(Seconds(*time)) : std::nullopt;
}

uint64_t StepOf(const pb::Counters& counters) {
  return counters.has_job_step() ? counters.job_step() : counters.rounds();
}

WorkerRow RowOf(uint32_t rank, const WorkerObservation& worker, const WorkRates& rates) {
  WorkerRow row;
  row.rank = rank;
  row.state = worker.state;
  row.host = worker.host;
  row.pid = worker.pid;
  row.silent_s = SecondsOf(worker.silent);
  row.step = StepOf(worker.counters);
  row.samples_per_s = worker.is_present ? rates.samples_per_s : 0;
  if (worker.counters.has_loss() && std::isfinite(worker.counters.loss()))
    row.loss = worker.counters.loss();
  row.computing = rates.computing;
  row.coding = rates.coding;
  row.waiting = rates.waiting;
  row.up_bytes_per_step = rates.up_bytes_per_step;
  row.down_bytes_per_step = rates.down_bytes_per_step;
  const setup::WorkerTraffic traffic = setup::TrafficOf(worker.counters),
                             earlier_traffic = setup::TrafficOf(worker.earlier);
  row.up_bytes = traffic.all_up_bytes + earlier_traffic.all_up_bytes;
  row.down_bytes = traffic.all_down_bytes + earlier_traffic.all_down_bytes;
  row.round_trip_s = rates.round_trip_s;
  return row;
}

}  // namespace

StatusBoard::StatusBoard(const setup::Setup& setup) : setup_(setup), windows_(setup.plan.workers) {
  JobStatus status;
  status.at = Now();
  status.state = "gathering";
  status_ = std::make_shared<JobStatus>(std::move(status));
}

void StatusBoard::Update(const Observation& seen, const setup::JobPosition& position, Time now) {
  auto status = std::make_shared<JobStatus>();
  if (position.beginning() != beginning_) newest_test_round_ = 0;
  step_ = position.steps_done();
  steps_ = position.steps();
  status->at = now;
  status->state = seen.state;
  status->step = step_;
  status->steps = steps_;
  AddWorkers(seen, now, status.get());
  AddMeans(seen, status.get());
  AddSpeed(position, now, status.get());
  beginning_ = position.beginning();
  resumed_from_ = position.resumed_from();
  AddCheckpoints(seen, now, status.get());
  status->shards.push_back({0, "present", Printable(setup_.hello.host()), 0.0});
  for (const ShardObservation& shard : seen.shards)
    status->shards.push_back({shard.shard, shard.state, shard.host, SecondsOf(shard.silent)});
  if (status->loss.has_value() && step_ > 0) losses_.Add({step_, *status->loss});
  status->losses = losses_.points();
  status->tests = tests_.points();
  status->events = events_;
  const MutexLock lock(mutex_);
  status_ = std::move(status);
}

void StatusBoard::AddWorkers(const Observation& seen, Time now, JobStatus* status) {
  uint64_t most_steps = 0;
  for (const WorkerObservation& worker : seen.workers)
    if (worker.is_present) most_steps = std::max(most_steps, StepOf(worker.counters));
  for (uint32_t rank = 0; rank < seen.workers.size() && rank < windows_.size(); ++rank) {
    const WorkerObservation& worker = seen.workers[rank];
    windows_[rank].Add(worker.incarnation, worker.counters, now);
    WorkerRow row = RowOf(rank, worker, windows_[rank].Rates());
    row.lag_steps = most_steps - std::min(most_steps, row.step);
    status->samples_per_s += row.samples_per_s;
    status->workers.push_back(std::move(row));
  }
}

void StatusBoard::AddMeans(const Observation& seen, JobStatus* status) const {
  double losses = 0;
  size_t num_losses = 0;
  uint64_t rounds = 0, up_bytes = 0, down_bytes = 0;
  for (const WorkerObservation& worker : seen.workers) {
    const pb::Counters& counters = worker.counters;
    const setup::WorkerTraffic traffic = setup::TrafficOf(counters);
    rounds += counters.rounds();
    up_bytes += traffic.up_bytes;
    down_bytes += traffic.down_bytes;
    if (!worker.is_present || counters.steps() == 0 || !std::isfinite(counters.loss())) continue;
    losses += counters.loss();
    ++num_losses;
  }
  if (num_losses > 0) status->loss = losses / static_cast<double>(num_losses);
  if (up_bytes > 0) status->up_ratio = setup::RatioToFp32(setup_.table.total, rounds, up_bytes);
  if (down_bytes > 0)
    status->down_ratio = setup::RatioToFp32(setup_.table.total, rounds, down_bytes);
}

void StatusBoard::AddSpeed(const setup::JobPosition& position, Time now, JobStatus* status) {
  // Steps before the job's first position, or before it went on from a checkpoint, took no time
  // since then.
  const bool is_new_run =
      beginning_ != position.beginning() || resumed_from_ != position.resumed_from();
  if (is_new_run || (!positions_.empty() && step_ < positions_.back().step)) positions_.clear();
  if (step_ == 0) return;
  positions_.push_back({now, step_});
  while (positions_.size() > 2 &&
         (now - positions_[1].at >= kSpeedWindow || positions_.size() > kMaxPositions))
    positions_.pop_front();
  const double seconds = Seconds(now - positions_.front().at);
  if (seconds <= 0) return;
  status->steps_per_s = static_cast<double>(step_ - positions_.front().step) / seconds;
  if (status->steps_per_s > 0 && steps_ >= step_)
    status->left_s = static_cast<double>(steps_ - step_) / status->steps_per_s;
}

void StatusBoard::AddCheckpoints(const Observation& seen, Time now, JobStatus* status) {
  std::optional<uint64_t> common;
  std::optional<double> age_s;  // the longest of those that the workers with that step know
  status->failed_checkpoints = seen.failed_checkpoints;
  for (const WorkerObservation& worker : seen.workers) {
    const pb::Counters& counters = worker.counters;
    status->failed_checkpoints +=
        counters.failed_checkpoints() + worker.earlier.failed_checkpoints();
    if (!worker.is_present || worker.is_joining) continue;
    const uint64_t step = std::max(counters.checkpoint_step(), counters.from_step());
    if (common.has_value() && *common < step) continue;
    if (common != step) age_s.reset();
    common = step;
    const bool is_of_this_process = counters.checkpoint_step() >= counters.from_step();
    const double age_of_worker = counters.has_checkpoint_age_s() ? counters.checkpoint_age_s() : -1;
    if (is_of_this_process && age_of_worker >= 0 && age_of_worker < kMaxAge_s)
      age_s = std::max(age_s.value_or(0), age_of_worker);
  }
  if (common.has_value() && *common != checkpoint_step_) {
    checkpoint_step_ = *common;
    checkpoint_at_.reset();
  }
  if (age_s.has_value()) {
    const Time at = now - Time(static_cast<int64_t>(*age_s * 1e9));
    checkpoint_at_ = std::min(checkpoint_at_.value_or(at), at);
  }
  status->checkpoint_step = checkpoint_step_;
  if (checkpoint_at_.has_value()) status->checkpoint_age_s = Seconds(now - *checkpoint_at_);
}

void StatusBoard::AddEvent(const std::string& text) {
  std::string shown = PrintableSentence(text, kMaxEventBytes);
  if (!events_.empty() && events_.back().text == shown) {
    events_.back().unix_s = UnixTime();
    ++events_.back().times;
    return;
  }
  events_.push_back({UnixTime(), std::move(shown)});
  if (events_.size() > kMaxEvents) events_.pop_front();
}

void StatusBoard::OnSent(const pb::Envelope& head, const Bytes& payload) {
  if (head.body_case() != pb::Envelope::kAllFigures) return;
  const pb::Outcome& outcome = head.all_figures();
  const uint64_t round = outcome.of_round().round();
  if (outcome.chunk() != protocol::kEvaluate || round <= newest_test_round_) return;
  newest_test_round_ = round;
  pb::FiguresOfAll all;
  if (!all.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return;
  double correct = 0, loss = 0, samples = 0;
  for (const std::string& of_worker : all.by_rank()) {
    pb::Figures figures;
    if (!figures.ParseFromString(of_worker)) return;
    if (figures.test_failed()) return;  // The others' scores are of a part of the test set.
    correct += static_cast<double>(figures.test_correct());
    loss += figures.test_loss();
    samples += static_cast<double>(figures.test_samples());
  }
  if (samples <= 0 || !std::isfinite(loss)) return;
  // Figures of a round are measured on the weights before it. A job without rounds is evaluated at
  // its end.
  const uint64_t step = setup_.plan.has_rounds
                            ? algorithm::FactsOf(setup_.job).StepOfRound(round - 1, steps_)
                        : steps_ != 0 ? steps_
                                      : step_;
  tests_.Add({step, correct / samples, loss / samples});
}

std::shared_ptr<const JobStatus> StatusBoard::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

}  // namespace tern::server
