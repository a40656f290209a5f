#include "worker/worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/exchange/coder.h"
#include "client/exchange/host_coder.h"
#include "client/train/trainer.h"
#include "common/algorithm/algorithms.h"
#include "common/base/failpoint.h"
#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/plan/plan.h"
#include "common/update/optimizer.h"
#include "setup/command_line.h"
#include "setup/metrics_routes.h"
#include "setup/own_state.h"
#include "setup/report.h"
#include "worker/compute_threads.h"
#include "worker/data/summary.h"
#include "worker/device/device_arenas.h"
#include "worker/device/device_coder.h"
#include "worker/device/layout.h"
#include "worker/gpu_choice.h"
#include "worker/job_compute.h"
#include "worker/machine.h"
#include "worker/net_compute.h"
#include "worker/read_samples.h"
#include "worker/summary_writer.h"
#include "worker/wait_compute.h"

namespace tern::worker {

namespace {

std::string FrozenText(const models::ParameterTable& table) {
  if (table.frozen.empty()) return "";
  return Cat(" that are trained and ", table.frozen_total, " that are frozen");
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Make(const setup::Setup& setup, StopSignals& signals,
                                             uint32_t rank) {
  std::unique_ptr<Worker> worker(new Worker(setup, signals, rank));
  TERN_RETURN_IF_ERROR(worker->Initialize());
  return worker;
}

Worker::Worker(const setup::Setup& setup, StopSignals& signals, uint32_t rank)
    : setup_(setup),
      signals_(signals),
      rank_(rank),
      job_(config::JobForRank(setup.job, rank)),
      traffic_(registry_),
      progress_(registry_) {}

Status Worker::Initialize() {
  TERN_RETURN_IF_ERROR(TakeGpu(job_, rank_));
  TERN_RETURN_IF_ERROR(SetComputeThreads(job_, rank_));
  if (const std::string warning = WarningOfThreads(job_); !warning.empty()) LOG(WARNING) << warning;
  TERN_RETURN_IF_ERROR(ReadData());
  data::Epochs::Options options = data::Epochs::OptionsOf(job_);
  options.rank = rank_;
  Result<data::Batches> batches = data::Batches::Make(*train_samples_, options, job_.seed());
  if (!batches.ok()) return batches.status();
  batches_.emplace(std::move(*batches));
  const Result<uint64_t> total_steps = data::StepsOfJob(job_, batches_->epochs());
  if (!total_steps.ok()) return total_steps.status();
  total_steps_ = *total_steps;

  auto replica = client::Replica::Make(setup_);
  if (!replica.ok()) return replica.status();
  replica_ = std::move(*replica);
  TERN_RETURN_IF_ERROR(MakeModel());
  if (job_.metrics().port() == 0) return Ok();
  net::HttpRoutes routes = setup::MetricsRoutes(setup_, rank_, registry_);
  routes["/"] = setup::SignpostRoute(setup_.job, Cat("worker ", rank_));
  health_.AddRoutes(&routes);
  auto http_server = net::HttpServer::Start(
      job_.metrics().host(), setup::WorkerMetricsPort(job_.metrics(), rank_), std::move(routes));
  if (!http_server.ok()) return http_server.status();
  http_server_ = std::move(*http_server);
  return Ok();
}

Status Worker::ReadData() {
  for (const auto& [split, samples_member] : {std::pair{data::Split::kTrain, &train_samples_},
                                              std::pair{data::Split::kTest, &test_samples_}}) {
    auto samples = ReadSamples(setup_, job_, split);
    if (!samples.ok()) return samples.status();
    *samples_member = std::move(*samples);
  }
  return Ok();
}

Status Worker::MakeModel() {
  if (job_.train().compute() == pb::Train::wait || !device::StaysOnDevice(setup_, job_))
    return Ok();
  auto model = device::DeviceModel::Make(
      device::LayoutOf(setup_, replica_->optimizer().StateArrays().size()));
  if (!model.ok()) return model.status();
  model_ = std::move(*model);
  LOG(INFO) << "weights, gradients, codes and updates stay on the GPU";
  return replica_->MoveTo(
      std::make_unique<device::DeviceArenas>(setup_, replica_->host_values(), *model_));
}

Status Worker::PlanNets() {
  HitFailpoint(FailPlace::kThreadPlan);
  if (job_.train().compute() == pb::Train::wait) {
    compute_ = MakeWaitCompute(setup_, job_.train(), rank_, replica_->gradients());
  } else {
    auto compute = MakeNetCompute(setup_, rank_,
                                  {replica_->point(), replica_->gradients(),
                                   replica_->statistics().data(), model_.get(), replica_->frozen()},
                                  train_samples_->rule());
    if (!compute.ok()) return compute.status();
    compute_ = std::move(*compute);
  }
  auto evaluator =
      Evaluator::Make(setup_, *test_samples_, *replica_, progress_, DeviceOf(job_), model_.get());
  if (!evaluator.ok()) return evaluator.status();
  evaluator_ = std::move(*evaluator);
  return Ok();
}

std::unique_ptr<client::GradientCoder> Worker::MakeGradientCoder() const {
  if (model_ == nullptr) return std::make_unique<client::HostCoder>(setup_, rank_);
  return std::make_unique<device::DeviceCoder>(setup_, rank_, model_->codes());
}

std::function<Bytes(const Bytes&)> Worker::PlaceSumFunction() const {
  if (model_ == nullptr) return nullptr;
  return [model = model_.get()](const Bytes& sum) { return model->PlaceSum(sum); };
}

void Worker::LogStart() const {
  if (setup_.given_weights != nullptr) {
    LOG(INFO) << "the first weights are those of " << setup_.job.model().weights() << ", digest "
              << Hex(setup_.hello.weights_digest());
  }
  LOG_IF(WARNING, setup_.given_weights == nullptr && !setup_.table.frozen.empty())
      << "train.freeze keeps random weights, because the job has no model.weights";
  const protocol::RoundBytes round_bytes = protocol::CountRoundBytes(setup_.plan);
  LOG(INFO) << "worker " << rank_ << " of " << setup_.plan.workers << ": " << setup_.table.total
            << " parameters" << FrozenText(setup_.table) << ", global batch "
            << job_.train().batch_total() << ", " << batches_->epochs().steps_per_epoch()
            << " steps an epoch, " << total_steps_ << " steps; schedule "
            << job_.train().schedule().name() << " from " << job_.train().schedule().learning_rate()
            << "; a round takes at most " << HumanBytes(round_bytes.push + round_bytes.scalers)
            << " up and " << HumanBytes(round_bytes.sum + round_bytes.scalers)
            << " down, fp32 would take " << HumanBytes(4 * setup_.table.total) << " each way";
  LOG(INFO) << "algorithm " << algorithm::DescribeAlgorithm(job_.train()) << ", optimizer "
            << update::DescribeOptimizer(job_.train().optimizer());
}

Status Worker::Train(client::NetLoop& loop, client::Coder& coder, client::Events& events,
                     client::Checkpoints* checkpoints, client::Observer* observer) {
  Status ready_status = PlanNets();
  progress_.planning_since = Time::zero();
  if (ready_status.ok()) {
    JobCompute compute(*batches_, job_.data().threads(), *compute_, *evaluator_);
    auto trainer = client::Trainer::Make({setup_, rank_, total_steps_, compute, *replica_, coder,
                                          loop, events, progress_, checkpoints, observer});
    if (trainer.ok()) return (*trainer)->Run();
    ready_status = trainer.status();
  }
  loop.Finish(ready_status, {}, 0);
  return ready_status;
}

Status Worker::Run() {
  LogStart();
  client::Events events;
  client::Coder* coder_pointer = nullptr;
  client::DiskCheckpoints checkpoints(setup_, rank_, job_.output_dir());
  client::NetLoop::Options options{
      rank_,
      total_steps_,
      client::ReplicaState::MaxBytes(setup_),
      checkpoints.FindSavedCheckpoints(),
      setup::WorkersKeepOwnState(setup_),
      [&coder_pointer](client::Answer answer) { coder_pointer->ReceiveScalers(std::move(answer)); },
      PlaceSumFunction(),
      [&coder_pointer] { return coder_pointer->Stack(); }};
  options.health = &health_;
  const data::Summary summary =
      data::Summarize(train_samples_->dataset(), test_samples_->dataset());
  options.data_digest = summary.digest;
  options.data_text = summary.text;
  client::NetLoop loop(setup_, signals_, registry_, traffic_, progress_, events,
                       std::move(options));
  const auto summary_writer = SummaryWriter::Make(setup_, rank_, progress_, traffic_);
  client::Coder coder(setup_, MakeGradientCoder(), loop, events, progress_);
  coder.SetObserver(summary_writer.get());
  coder_pointer = &coder;
  progress_.planning_since = Now();
  loop.Start();
  const Status train_status = Train(loop, coder, events, &checkpoints, summary_writer.get());
  const Status loop_status = loop.Join();
  const pb::Counters counters = loop.Counters();
  LOG(INFO) << setup::CountersJson(counters);
  if (train_status.ok() && loop_status.ok())
    LogInfo(Cat("worker ", rank_, " has finished after step ", counters.job_step()), Print::kYes);
  const Status write_status = setup::WriteSummaryFile(
      Cat(job_.output_dir(), "/worker.", rank_, ".json"), setup::CountersJson(counters));
  return setup::FinalStatus(train_status.ok() ? loop_status : train_status, write_status);
}

}  // namespace tern::worker
