#include "client/guest/guest.h"

#include <fcntl.h>

#include <charconv>
#include <cstdlib>
#include <utility>

#include "client/exchange/coder.h"
#include "client/exchange/host_coder.h"
#include "client/exchange/net_loop.h"
#include "client/guest/guest_log.h"
#include "client/guest/module_compute.h"
#include "client/guest/program_checkpoints.h"
#include "client/train/replica_state.h"
#include "client/train/trainer.h"
#include "common/algorithm/ranks.h"
#include "common/base/logging.h"
#include "common/base/output_file.h"
#include "common/base/text.h"
#include "setup/first_weights.h"
#include "setup/none_reminder.h"
#include "setup/own_state.h"
#include "setup/report.h"
#include "setup/security.h"

namespace tern::client {

// How much larger another program's state may be than four times the parameters that it trains.
// Those that it keeps frozen are in it, too, and nothing here knows how many they are.
constexpr uint64_t kMoreStateBytes = uint64_t{16} << 30;

namespace {

Status CheckKind(const Guest::Options& options, const pb::Job& job) {
  const auto wanted = options.is_module ? pb::Train::module : pb::Train::client;
  if (job.train().compute() != wanted) {
    return Status(
        Code::kBadJob,
        Cat(options.job_path, ": train.compute: saw ",
            pb::Train::Compute_Name(job.train().compute()), "; a program that ",
            options.is_module ? "leaves its weights to Tern" : "updates its weights itself",
            " can take part only in a job with ", pb::Train::Compute_Name(wanted)));
  }
  if (options.rank < algorithm::NumRanks(job)) return Ok();
  return Status(Code::kUsage,
                Cat("saw rank ", options.rank, "; the job has ", algorithm::NumRanks(job),
                    " workers, so the rank is at most ", algorithm::NumRanks(job) - 1));
}

// A worker that is lost, or a server that remembers earlier gradients, makes all programs go back.
Status CheckGoesBack(const Guest::Options& options, const setup::Setup& setup) {
  const bool must_go_back =
      setup.job.faults().on_worker_loss() == pb::Faults::wait && setup::HasCodecMemory(setup);
  if (!must_go_back || options.is_module || options.takes_tasks) return Ok();
  return Status(Code::kBadJob,
                Cat(options.job_path,
                    ": faults.on_worker_loss: saw wait, and a codec with a memory of earlier "
                    "gradients, which is lost with a client, so that all must go back to a "
                    "checkpoint; this program cannot (tern_train: goes_back=True); choose a codec "
                    "without a memory, or fail"));
}

// Sets what a module's job begins with: model.weights, or what the program has.
Status SetFirstWeights(const Guest::Options& options, setup::Setup* setup) {
  TERN_RETURN_IF_ERROR(CheckOutputFolder(setup->job.output_dir()));
  if (setup->job.model().has_weights()) return setup::ReadGivenWeights(setup);
  setup->given_weights = std::make_shared<const models::Weights>(options.first_weights);
  return Ok();
}

// A copy of the descriptor that TERN_KEYS_FD names, by which `tern launch` gives a program its
// keys; -1 without that variable. A program may open several clients, and each closes its copy.
Result<int> KeysFdOfEnvironment() {
  const char* const text = std::getenv("TERN_KEYS_FD");
  if (text == nullptr) return -1;
  const std::string number = text;
  int keys_fd = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), keys_fd);
  const bool is_number = error == std::errc() && end == number.data() + number.size();
  const int copy = is_number ? fcntl(keys_fd, F_DUPFD_CLOEXEC, 0) : -1;
  if (copy >= 0) return copy;
  return Status(Code::kUsage,
                Cat("TERN_KEYS_FD: saw '", Printable(number),
                    "', expected the number of an open descriptor with this worker's keys; `tern "
                    "launch` sets it, and a program between it and this one has to pass on the "
                    "descriptor (subprocess.Popen: pass_fds)"));
}

}  // namespace

Result<std::unique_ptr<Guest>> Guest::Open(const Options& options) {
  auto setup = setup::MakeSetupWithoutTensors(options.job_path, options.overrides);
  if (!setup.ok()) return setup.status();
  const pb::Job& job = (*setup)->job;
  (*setup)->rank = options.rank;
  TERN_RETURN_IF_ERROR(CheckKind(options, job));
  TERN_RETURN_IF_ERROR(setup::SetTensors(options.tensors, setup->get()));
  TERN_RETURN_IF_ERROR(CheckGoesBack(options, **setup));
  if (options.takes_tasks) TERN_RETURN_IF_ERROR(CheckOutputFolder(job.output_dir()));
  if (options.is_module) TERN_RETURN_IF_ERROR(SetFirstWeights(options, setup->get()));
  const Result<int> keys_fd =
      job.security() == pb::Job::curve ? KeysFdOfEnvironment() : Result<int>(-1);
  if (!keys_fd.ok()) return keys_fd.status();
  TERN_RETURN_IF_ERROR(
      setup::SetKeys({net::Principal::Role::kWorker, options.rank}, *keys_fd, setup->get()));
  std::unique_ptr<Guest> guest(new Guest(std::move(*setup), options));
  TERN_RETURN_IF_ERROR(guest->MakeReplica());
  if (!guest->takes_tasks_) {
    auto state = ClientState::Make(*guest->setup_, options.rank, options.saved_state,
                                   options.saved_digest, guest->events_);
    if (!state.ok()) return state.status();
    guest->client_state_ = std::move(*state);
  }
  guest->thread_ = Thread("tern", [guest = guest.get()] { guest->Run(); });
  return guest;
}

Guest::Guest(std::unique_ptr<setup::Setup> setup, const Options& options)
    : setup_(std::move(setup)),
      rank_(options.rank),
      has_first_state_(options.has_first_state && !setup_->job.model().has_weights()),
      evaluates_(options.evaluates),
      takes_tasks_(options.takes_tasks || options.is_module),
      progress_(registry_),
      handoff_(*setup_, events_, guest_events_),
      tasks_(events_) {
  AddLogReceiver(&guest_events_);
}

Guest::~Guest() {
  End(Status(Code::kPeerLost, "the program has left the job"));
  thread_.Join();
  RemoveLogReceiver(&guest_events_);
}

Status Guest::MakeReplica() {
  auto replica = Replica::Make(*setup_);
  if (!replica.ok()) return replica.status();
  replica_ = std::move(*replica);
  handoff_.SetArena(replica_->gradients());
  if (setup::IsModuleJob(setup_->job)) return Ok();
  return replica_->MoveTo(std::make_unique<GuestArenas>(*setup_, handoff_, round_));
}

void Guest::End(const Status& status) {
  handoff_.End(status);
  tasks_.End(status);
  if (client_state_ != nullptr) client_state_->End(status);
}

Result<std::optional<Bytes>> Guest::Save(Time patience) {
  if (client_state_ == nullptr)
    return Status(Code::kUsage, "tern_save: Tern writes this program's checkpoints by itself");
  if (handoff_.IsInStep()) {
    return Status(
        Code::kUsage,
        "tern_save: saw a step in which some tensors were pushed; save between two steps");
  }
  return client_state_->Save(patience);
}

Result<GuestTask> Guest::NextTask(Time patience) {
  if (!takes_tasks_)
    return Status(Code::kUsage, "tern_next: the options of tern_open did not say takes_tasks");
  const GuestTask taken = tasks_.taken();
  switch (taken.type) {
    case GuestTask::Type::kStep:
      TERN_RETURN_IF_ERROR(handoff_.CheckAllPushed(taken.step));
      // The next call, if this one returns no task, must not find the next step open and not taken.
      tasks_.FinishTaken();
      break;
    case GuestTask::Type::kSave:
      return Status(Code::kUsage, "tern_next: saw no tern_keep after TERN_SAVE");
    case GuestTask::Type::kEvaluate:
      return Status(Code::kUsage, "tern_next: saw no tern_score after TERN_EVALUATE");
    default:
      break;
  }
  return tasks_.Next(patience);
}

Result<bool> Guest::Push(uint32_t tensor, const float* gradient, float* mean, Time patience) {
  const bool has_step = !takes_tasks_ || tasks_.taken().type == GuestTask::Type::kStep;
  if (has_step || handoff_.has_ended()) return handoff_.Push(tensor, gradient, mean, patience);
  return Status(Code::kUsage,
                "tern_push: saw no TERN_STEP of tern_next, by which a program that takes tasks "
                "begins each step (tern_train: the loop is `for step in exchange.loop(steps)`)");
}

GuestEvent Guest::Poll(Time timeout) {
  return guest_events_.Pop(Now() + timeout).value_or(GuestEvent());
}

std::string Guest::StatsJson() const {
  const MutexLock lock(mutex_);
  return setup::CountersJson(counters_);
}

void Guest::OnCounters(const pb::Counters& counters) {
  const Time now = Now();
  if (now - counted_at_ < std::chrono::milliseconds(200)) return;
  counted_at_ = now;
  const MutexLock lock(mutex_);
  counters_ = counters;
}

void Guest::Run() {
  for (const std::string& line : setup_->place_lines) LOG(INFO) << line;
  if (setup_->job.security() == pb::Job::none) LOG(WARNING) << setup::kNoneWarning;
  const Status status = Train();
  End(status);
  guest_events_.Push({.type = GuestEvent::Type::kEnded, .status = status});
}

Status Guest::Train() {
  if (setup::IsClientJob(setup_->job)) return TrainClient();
  ModuleCompute compute(*setup_, handoff_, tasks_, *replica_, progress_, guest_events_, evaluates_);
  DiskCheckpoints checkpoints(*setup_, rank_, setup_->job.output_dir());
  TERN_RETURN_IF_ERROR(TrainWith(compute, checkpoints, checkpoints.FindSavedCheckpoints()));
  compute.ShowEvaluatedWeights();
  return Ok();
}

Status Guest::TrainClient() {
  GuestCompute compute(handoff_, round_, guest_events_, takes_tasks_ ? &tasks_ : nullptr,
                       progress_);
  if (takes_tasks_) {
    ProgramCheckpoints checkpoints(*setup_, rank_, tasks_, progress_,
                                   [&](const Bytes& state) { compute.LoadState(state); });
    return TrainWith(compute, checkpoints, checkpoints.FindSavedCheckpoints());
  }
  protocol::SavedCheckpoints saved;
  saved.checkpoints = client_state_->Offers();
  return TrainWith(compute, *client_state_, std::move(saved));
}

// As Worker::Run, without an engine and data.
Status Guest::TrainWith(Compute& compute, Checkpoints& checkpoints,
                        protocol::SavedCheckpoints saved) {
  const pb::Job& job = setup_->job;
  const bool is_client = setup::IsClientJob(job);
  const uint64_t steps = is_client ? setup::kUnknownSteps : job.train().steps();
  Coder* coder_pointer = nullptr;
  NetLoop::Options options;
  options.rank = rank_;
  // What a program of its own keeps, such as the state of its random numbers, no other has.
  options.keeps_own =
      setup::WorkersKeepOwnState(*setup_) || (is_client && checkpoints.every_steps() != 0);
  options.on_scaled = [&](Answer answer) { coder_pointer->ReceiveScalers(std::move(answer)); };
  options.on_counters = [this](const pb::Counters& counters) { OnCounters(counters); };
  options.owns_process = false;
  options.has_first_state = has_first_state_;
  options.max_state_bytes = is_client ? 4 * sizeof(float) * setup_->table.total + kMoreStateBytes
                                      : ReplicaState::MaxBytes(*setup_);
  if (!is_client) options.steps = steps;
  options.saved = std::move(saved);
  NetLoop loop(*setup_, signals_, registry_, traffic_, progress_, events_, std::move(options));
  Coder coder(
      *setup_,
      std::make_unique<HostCoder>(*setup_, rank_, is_client ? &handoff_.sources() : nullptr), loop,
      events_, progress_);
  coder_pointer = &coder;
  loop.Start();
  auto trainer = Trainer::Make(
      {*setup_, rank_, steps, compute, *replica_, coder, loop, events_, progress_, &checkpoints});
  if (!trainer.ok()) loop.Finish(trainer.status(), {}, 0);
  const Status train_status = trainer.ok() ? (*trainer)->Run() : trainer.status();
  const Status loop_status = loop.Join();
  {
    const MutexLock lock(mutex_);
    counters_ = loop.Counters();
  }
  return train_status.ok() ? loop_status : train_status;
}

}  // namespace tern::client
