// What a shard says of the job: progress, summary, and the answers to probes.
#include "common/base/clock.h"
#include "server/server.h"
#include "server/status/observation.h"

namespace tern::server {

std::vector<setup::WorkerStatus> Server::WorkerStatuses() const {
  std::vector<setup::WorkerStatus> workers;
  for (uint32_t rank = 0; coordinator_ != nullptr && rank < coordinator_->workers().size();
       ++rank) {
    const protocol::Coordinator::Worker& worker = coordinator_->workers()[rank];
    using Presence = protocol::Coordinator::Worker::Presence;
    const bool is_present =
        worker.presence == Presence::kPresent || worker.presence == Presence::kDone;
    workers.push_back({rank, worker.CountersOfAll(), worker.figures, is_present, worker.joining,
                       worker.hello.pid()});
  }
  return workers;
}

std::vector<setup::WorkerStatus> Server::UpdatePosition() {
  std::vector<setup::WorkerStatus> workers = WorkerStatuses();
  if (coordinator_ != nullptr)
    job_position_.Update(coordinator_->job().roster.steps, coordinator_->job().beginning, workers);
  return workers;
}

uint64_t Server::FailedShardCheckpoints() const {
  return coordinator_ == nullptr ? Saved().num_failed : coordinator_->FailedShardCheckpoints();
}

void Server::ReportProgress() {
  if (coordinator_ == nullptr || Now() - last_progress_at_ < std::chrono::milliseconds(500)) return;
  last_progress_at_ = Now();
  const std::vector<setup::WorkerStatus> workers = UpdatePosition();
  if (status_board_.has_value()) {
    status_board_->Update(Observe(*coordinator_, clock_.Now()), job_position_, Now());
    status_metrics_->Update(*status_board_->status());
  }
  service_manager_.ShowStatus(setup::StatusText(job_position_, workers), last_progress_at_);
  report_.ShowProgress(workers, job_position_, FailedShardCheckpoints(), clock_.Now());
}

void Server::WriteSummary() {
  final_status_ = report_.ShowSummary(final_status_, [this](const Status& status) {
    return setup::SummaryJson(setup_, UpdatePosition(), job_position_, status,
                              FailedShardCheckpoints());
  });
}

std::string Server::WaitingFor() const {
  if (status_board_.has_value()) return server::WaitingFor(*status_board_->status());
  return control_->WaitingFor();
}

}  // namespace tern::server
