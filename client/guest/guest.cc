#include "client/guest/guest.h"

#include <utility>

#include "client/exchange/coder.h"
#include "client/exchange/host_coder.h"
#include "client/exchange/net_loop.h"
#include "client/guest/guest_log.h"
#include "client/train/replica.h"
#include "client/train/trainer.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "setup/none_reminder.h"
#include "setup/report.h"
#include "setup/security.h"

namespace tern::client {

// How much larger another program's state may be than four times the parameters.
constexpr uint64_t kMoreStateBytes = uint64_t{64} << 20;

Result<std::unique_ptr<Guest>> Guest::Open(const Options& options) {
  auto setup = setup::MakeSetupWithoutTensors(options.job_path, options.overrides);
  if (!setup.ok()) return setup.status();
  const pb::Job& job = (*setup)->job;
  if (!setup::IsClientJob(job)) {
    return Status(Code::kBadJob, Cat(options.job_path, ": train.compute: saw ",
                                     pb::Train::Compute_Name(job.train().compute()),
                                     "; a program can take part only in a job with client"));
  }
  if (options.rank >= job.workers().count()) {
    return Status(
        Code::kUsage,
        Cat("saw rank ", options.rank, "; the job has ", job.workers().count(),
            " workers (workers.count), so the rank is at most ", job.workers().count() - 1));
  }
  TERN_RETURN_IF_ERROR(setup::SetTensors(options.tensors, setup->get()));
  auto security =
      setup::LoadSecurity(job, {net::Principal::Role::kWorker, options.rank}, /*keys_fd=*/-1);
  if (!security.ok()) return security.status();
  if (security->mechanism != net::Security::Mechanism::kNull)
    (*setup)->security = std::make_shared<net::Security>(std::move(*security));
  std::unique_ptr<Guest> guest(new Guest(std::move(*setup), options));
  guest->thread_ = Thread("tern", [guest = guest.get()] { guest->Run(); });
  return guest;
}

Guest::Guest(std::unique_ptr<setup::Setup> setup, const Options& options)
    : setup_(std::move(setup)),
      rank_(options.rank),
      has_first_state_(options.has_first_state),
      progress_(registry_),
      handoff_(*setup_, events_, guest_events_) {
  AddLogReceiver(&guest_events_);
}

Guest::~Guest() {
  handoff_.End(Status(Code::kPeerLost, "the program has left the job"));
  thread_.Join();
  RemoveLogReceiver(&guest_events_);
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
  if (setup_->job.security() == pb::Job::none) LOG(WARNING) << setup::kNoneWarning;
  const Status status = Train();
  handoff_.End(status);
  guest_events_.Push({.type = GuestEvent::Type::kEnded, .status = status});
}

// As Worker::Run, without an engine, data, checkpoints and files.
Status Guest::Train() {
  auto replica = Replica::Make(*setup_);
  if (!replica.ok()) return replica.status();
  replica_ = std::move(*replica);
  TERN_RETURN_IF_ERROR(replica_->MoveTo(std::make_unique<GuestArenas>(*setup_, handoff_, round_)));
  handoff_.SetArena(replica_->gradients());
  GuestCompute compute(handoff_, round_, setup_->table.parameters.size(), progress_, guest_events_);

  Coder* coder_pointer = nullptr;
  NetLoop::Options options;
  options.rank = rank_;
  options.keeps_own = HasCodecMemory(*setup_);
  options.on_scaled = [&](Answer answer) { coder_pointer->ReceiveScalers(std::move(answer)); };
  options.on_counters = [this](const pb::Counters& counters) { OnCounters(counters); };
  options.owns_process = false;
  options.has_first_state = has_first_state_;
  options.max_state_bytes = 4 * sizeof(float) * setup_->table.total + kMoreStateBytes;
  NetLoop loop(*setup_, signals_, registry_, traffic_, progress_, events_, std::move(options));
  Coder coder(*setup_, std::make_unique<HostCoder>(*setup_, rank_), loop, events_, progress_);
  coder_pointer = &coder;
  loop.Start();
  auto trainer = Trainer::Make(
      {*setup_, rank_, setup::kUnknownSteps, compute, *replica_, coder, loop, events_, progress_});
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
