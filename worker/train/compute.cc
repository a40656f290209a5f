#include "worker/train/compute.h"

#include <limits>
#include <map>
#include <utility>

#include "common/config/job.h"

namespace tern::train {

namespace {

class NetCompute : public Compute {
 public:
  NetCompute(const setup::Setup& setup, uint32_t rank, const engine::Net::Arenas& arenas)
      : setup_(setup), rank_(rank), arenas_(arenas) {}

  Status Choose(uint32_t batch) {
    std::unique_ptr<engine::Net>& net = nets_[batch];
    if (net == nullptr) {
      const engine::Net::Options options = {.device = DeviceOf(config::ForRank(setup_.job, rank_)),
                                            .batch = batch,
                                            .seed = setup_.job.seed(),
                                            .rank = static_cast<uint16_t>(rank_),
                                            .precision = PrecisionOf(setup_.job.train())};
      auto made = engine::Net::Make(setup_.net, options, arenas_);
      if (!made.ok()) return made.status();
      net = std::move(*made);
    }
    net_ = net.get();
    return Ok();
  }
  double Forward(const data::Batch& batch, const engine::Need& need) override {
    const auto samples = static_cast<uint32_t>(batch.labels.size());
    if (chosen_.ok()) chosen_ = Choose(samples);
    if (!chosen_.ok()) return std::numeric_limits<double>::quiet_NaN();
    return net_->Forward({batch.images, batch.labels, samples, batch.step}, nullptr, need);
  }
  void Backward(const std::function<void(uint32_t)>& ready) override { net_->Backward(ready); }
  Status status() const override { return chosen_.ok() ? net_->status() : chosen_; }

 private:
  const setup::Setup& setup_;
  const uint32_t rank_;
  const engine::Net::Arenas arenas_;
  std::map<uint32_t, std::unique_ptr<engine::Net>> nets_;  // by batch
  engine::Net* net_ = nullptr;
  Status chosen_;  // a device may have no room for another size
};

}  // namespace

engine::Device DeviceOf(const pb::Job& job) {
  return job.workers().device() == pb::Workers::cuda ? engine::Device::kCuda : engine::Device::kCpu;
}

engine::Precision PrecisionOf(const pb::Train& train) {
  switch (train.precision()) {
    case pb::Train::tf32:
      return engine::Precision::kTf32;
    case pb::Train::bf16:
      return engine::Precision::kBf16;
    case pb::Train::fp16:
      return engine::Precision::kFp16;
    case pb::Train::fp32:
      break;
  }
  return engine::Precision::kFp32;
}

Result<std::unique_ptr<Compute>> MakeNetCompute(const setup::Setup& setup, uint32_t rank,
                                                const engine::Net::Arenas& arenas) {
  auto compute = std::make_unique<NetCompute>(setup, rank, arenas);
  TERN_RETURN_IF_ERROR(compute->Choose(setup.job.train().batch_total() / setup.plan.workers));
  return std::unique_ptr<Compute>(std::move(compute));
}

}  // namespace tern::train
