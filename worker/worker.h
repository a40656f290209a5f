// A worker process. Owns the data sets, the model, and the objects that compute gradients and
// evaluate the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/exchange/coder.h"
#include "client/exchange/net_loop.h"
#include "client/exchange/observer.h"
#include "client/train/checkpoints.h"
#include "client/train/replica.h"
#include "common/base/counters.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/net/http_server.h"
#include "common/net/traffic.h"
#include "setup/health.h"
#include "setup/setup.h"
#include "worker/batch_compute.h"
#include "worker/data/batches.h"
#include "worker/data/samples.h"
#include "worker/device/device_model.h"
#include "worker/evaluate.h"

namespace tern::worker {

class Worker {
 public:
  // Reads the training and test data. `setup` and `signals` must outlive the worker.
  static Result<std::unique_ptr<Worker>> Make(const setup::Setup& setup, StopSignals& signals,
                                              uint32_t rank);
  // Joins the job, plans the net, and trains on the calling thread until the job ends; returns the
  // status that the process exits with. Planning comes after joining, because it may take longer on
  // a GPU than the others wait for a hello.
  Status Run();

 private:
  Worker(const setup::Setup& setup, StopSignals& signals, uint32_t rank);
  Status Initialize();
  Status MakeModel();
  Status ReadData();
  Status PlanNets();
  // Plans the nets and trains; tells `loop` if the worker cannot.
  Status Train(client::NetLoop& loop, client::Coder& coder, client::Events& events,
               client::Checkpoints* checkpoints, client::Observer* observer);
  std::unique_ptr<client::GradientCoder> MakeGradientCoder() const;
  std::function<Bytes(const Bytes& sum)> PlaceSumFunction() const;  // for NetLoop::Options
  void LogStart() const;

  const setup::Setup& setup_;
  StopSignals& signals_;
  const uint32_t rank_;
  const pb::Job job_;  // The job with this rank's overrides (config::JobForRank).
  Registry registry_;
  net::Traffic traffic_;
  client::Progress progress_;
  std::unique_ptr<data::Samples> train_samples_, test_samples_;
  std::optional<data::Batches> batches_;
  uint64_t total_steps_ = 0;
  std::unique_ptr<device::DeviceModel> model_;  // Null if weights and gradients are on the host.
  std::unique_ptr<client::Replica> replica_;
  std::unique_ptr<BatchCompute> compute_;
  std::unique_ptr<Evaluator> evaluator_;
  setup::Health health_{"net thread"};
  std::unique_ptr<net::HttpServer> http_server_;
};

}  // namespace tern::worker
