#include "server/data_lane.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/algorithm/elasticity.h"
#include "common/algorithm/facts.h"
#include "common/base/logging.h"
#include "common/protocol/members/control.h"
#include "common/protocol/rounds/cells.h"
#include "common/protocol/rounds/lane_members.h"
#include "server/lane_trace.h"

namespace tern::server {

namespace {

// A CellSum that forwards all calls to another CellSum, and calls `on_closed` after Close().
class ObservedSum : public protocol::CellSum {
 public:
  ObservedSum(std::unique_ptr<protocol::CellSum> sum, std::function<void()> on_closed)
      : sum_(std::move(sum)), on_closed_(std::move(on_closed)) {}

  Status Add(uint32_t rank, const Bytes& payload) override { return sum_->Add(rank, payload); }
  Status AddPartial(const std::vector<uint32_t>& ranks, const Bytes& payload) override {
    return sum_->AddPartial(ranks, payload);
  }
  Bytes Close() override {
    Bytes answer = sum_->Close();
    on_closed_();
    return answer;
  }

 private:
  std::unique_ptr<protocol::CellSum> sum_;
  const std::function<void()> on_closed_;
};

}  // namespace

DataLane::Options DataLane::OptionsOf(const setup::Setup& setup, uint32_t shard, uint32_t lane,
                                      uint64_t incarnation) {
  Options options;
  options.workers = setup.plan.workers;
  options.incarnation = incarnation;
  options.window = algorithm::FactsOf(setup.job).window;
  const algorithm::Elasticity elasticity = algorithm::Elasticity::FromJob(setup.job);
  options.quorum = elasticity.quorum;
  options.shrink = elasticity.shrinks_on_loss();
  options.decides_last_round = shard == 0 && lane == 1;
  options.is_checkpoint_due = [&setup](uint64_t first_round, uint64_t last_round) {
    return IsCheckpointDueWithin(setup, first_round, last_round);
  };
  return options;
}

Result<std::unique_ptr<DataLane>> DataLane::Make(const setup::Setup& setup, uint32_t shard,
                                                 uint32_t lane, Options options,
                                                 std::span<const float> initial, Storage& storage) {
  std::unique_ptr<DataLane> data_lane(new DataLane(setup, shard, lane));
  const Rate rate = [this_lane = data_lane.get()](uint64_t step) {
    return this_lane->schedule_.has_value() ? this_lane->schedule_->Rate(step) : 0;
  };
  // Rounds count from 1, the schedule's steps from 0.
  if (shard == 0) options.learning_rate = [rate](uint64_t round) { return rate(round - 1); };
  options.on_checkpoint_round = [this_lane = data_lane.get()](uint64_t round) {
    if (this_lane->checkpoints_ != nullptr) this_lane->checkpoints_->WantAfter(round);
  };
  data_lane->checkpoints_ = std::make_unique<LaneCheckpoints>(setup, shard, lane, storage);
  if (!setup.plan.is_central) {
    data_lane->localized_lane_ =
        std::make_unique<protocol::RoundLane>(std::move(options), data_lane->MakeLocalizedCells());
    return data_lane;
  }
  std::vector<float> made_weights;
  if (initial.empty()) {
    made_weights = InitialWeights(setup);
    initial = made_weights;
  }
  auto central_lane =
      CentralLane::Make(setup, shard, lane, options, initial, rate, *data_lane->checkpoints_);
  if (!central_lane.ok()) return central_lane.status();
  data_lane->central_lane_ = std::move(*central_lane);
  return data_lane;
}

std::vector<protocol::CellSpec> DataLane::MakeLocalizedCells() {
  std::vector<protocol::CellSpec> cells =
      protocol::MakeCellsOfLane(setup_.plan, shard_, lane_number_);
  const bool has_state = std::any_of(cells.begin(), cells.end(), [](const auto& spec) {
    return static_cast<bool>(spec.append_state);
  });
  if (!has_state) checkpoints_.reset();
  for (protocol::CellSpec& spec : cells) {
    if (checkpoints_ == nullptr || !spec.append_state) continue;
    checkpoints_->AddCell(spec.cell, spec.append_state);
    spec.open = [this, cell = spec.cell, open = std::move(spec.open)](uint64_t round) {
      return std::make_unique<ObservedSum>(
          open(round), [this, cell, round] { checkpoints_->OnRoundClosed(cell, round); });
    };
  }
  TraceCloses(&cells);
  return cells;
}

std::optional<protocol::SavedCheckpoints> DataLane::Saved() const {
  if (checkpoints_ == nullptr || checkpoints_->empty()) return std::nullopt;
  return checkpoints_->Saved();
}

void DataLane::Stop(protocol::Sends* sends) {
  if (central_lane_ != nullptr && central_lane_->clock_lane() != nullptr) {
    central_lane_->clock_lane()->Stop(sends);
  } else {
    state_machine().OnStop();
  }
}

void DataLane::OnMembers(const pb::Members& members, protocol::Sends* sends) {
  if ((shard_ == 0 || central_lane_ != nullptr) && !schedule_.has_value()) {
    auto schedule = update::Schedule::Make(setup_.job.train(), members.steps());
    // A client's job has no steps, and uses no rate. Others were checked with their file.
    if (schedule.ok()) schedule_ = std::move(*schedule);
  }
  if (checkpoints_ != nullptr) checkpoints_->SetSteps(members.steps());
  if (AdoptRunAndBeginning(members)) state_machine().OnMembers(members, sends);
  UpdateLastStep();
}

bool DataLane::AdoptRunAndBeginning(const pb::Members& members) {
  if (central_lane_ != nullptr) {
    if (!central_lane_->BeginRun(members.run()).ok()) return false;
  } else if (checkpoints_ != nullptr && !checkpoints_->Begin(members.run()).ok()) {
    return false;
  }
  // A central lane without rounds has begun a new run above; with rounds, that has a beginning.
  const uint64_t known_run = central_lane_ != nullptr ? 0 : run_;
  if (!protocol::RoundToGoBackTo(members, known_run, beginning_).has_value()) {
    run_ = members.run();
    return true;
  }
  std::optional<pb::Checkpoint> target;
  if (members.has_resume()) target = members.resume();
  const bool is_restored =
      central_lane_ != nullptr && central_lane_->beginning() == members.beginning();
  if (const Status go_back_status = is_restored ? Ok() : GoBack(target); !go_back_status.ok()) {
    LOG(ERROR) << "lane " << lane_number_
               << " cannot go back, and refuses all workers: " << go_back_status.message();
    return false;
  }
  run_ = members.run();
  beginning_ = members.beginning();
  if (central_lane_ != nullptr) central_lane_->SetBeginning(beginning_);
  return true;
}

Status DataLane::GoBack(const std::optional<pb::Checkpoint>& target) {
  if (central_lane_ != nullptr) return central_lane_->GoBack(target);
  if (checkpoints_ != nullptr && target.has_value()) {
    TERN_RETURN_IF_ERROR(checkpoints_->Load(*target));
  } else if (checkpoints_ != nullptr) {
    // Begin() has prepared the folder. What it has of this run is needed if this process is new.
    checkpoints_->ClearState();
  }
  localized_lane_->GoBack(target.has_value() ? target->round() : 0);
  return Ok();
}

void DataLane::AfterMessages() {
  if (central_lane_ != nullptr) central_lane_->AfterMessages();
  UpdateLastStep();
}

void DataLane::UpdateLastStep() {
  if (central_lane_ != nullptr) last_step_ = central_lane_->last_step();
}

Status DataLane::Finish(uint64_t last_step) {
  if (central_lane_ != nullptr) return central_lane_->Finish(last_step);
  return checkpoints_ == nullptr || last_step == 0 ? Ok() : checkpoints_->FinishAt(last_step);
}

void DataLane::OnMessage(protocol::Peer from, const protocol::Message& message,
                         protocol::Sends* sends) {
  if (has_lost_disk_) return;
  if (!message.head.has_hello()) {
    state_machine().OnMessage(from, message, sends);
    if (message.head.push().has_parting()) UpdateLastStep();
    if (message.head.has_held_sum() && central_lane_ != nullptr)
      has_lost_disk_ = !central_lane_->OnHeldOutcome().ok();
    return;
  }
  const Status hello_status = protocol::CheckWorkersHello(message.head.hello(), setup_.hello);
  if (!hello_status.ok()) {
    sends->push_back(
        protocol::RefusalTo(from, hello_status.code(), hello_status.message(), pb::Refuse::leave));
    return;
  }
  state_machine().OnHello(from, message.head.hello(), sends);
}

}  // namespace tern::server
