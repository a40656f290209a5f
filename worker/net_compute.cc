#include "worker/net_compute.h"

#include <limits>
#include <map>
#include <utility>

#include "common/algorithm/ranks.h"
#include "common/config/job.h"

namespace tern::worker {

namespace {

class NetCompute : public BatchCompute {
 public:
  NetCompute(const setup::Setup& setup, uint32_t rank, const engine::Net::Arenas& arenas,
             const std::optional<kernels::PixelRule>& pixels)
      : setup_(setup),
        rank_(rank),
        arenas_(arenas),
        device_(DeviceOf(config::JobForRank(setup.job, rank))),
        pixels_(device_ == engine::Device::kCuda ? pixels : std::nullopt) {}

  // Plans the nets that training begins with. On a GPU these are all of a growing batch: planning
  // may take minutes there, in which a worker that trains would count as lost.
  Status PlanNets() {
    if (device_ == engine::Device::kCuda) {
      for (const pb::BatchGrowth& growth : setup_.job.train().batch_growth())
        TERN_RETURN_IF_ERROR(ChooseNet(algorithm::BatchOfWorker(setup_.job, growth.batch_total())));
    }
    return ChooseNet(algorithm::BatchOfWorker(setup_.job));
  }
  // Sets net_ to the net for batches of `batch_size` samples; plans that net if there is none.
  Status ChooseNet(uint32_t batch_size) {
    if (device_ == engine::Device::kCpu && !nets_.empty() && batch_size > nets_.rbegin()->first) {
      nets_.clear();
      net_ = nullptr;
    }
    std::unique_ptr<engine::Net>& net = nets_[batch_size];
    if (net == nullptr) {
      const engine::Net::Options options = {.device = device_,
                                            .batch = batch_size,
                                            .seed = setup_.job.seed(),
                                            .rank = static_cast<uint16_t>(rank_),
                                            .precision = PrecisionOf(setup_.job.train()),
                                            .pixels = pixels_,
                                            .freeze = setup::FrozenPatterns(setup_.job)};
      auto new_net = engine::Net::Make(setup_.net, options, arenas_);
      if (!new_net.ok()) return new_net.status();
      net = std::move(*new_net);
    }
    net_ = net.get();
    batch_size_ = batch_size;
    return Ok();
  }
  double Forward(const data::Batch& batch, const engine::Need& need) override {
    const auto num_samples = static_cast<uint32_t>(batch.labels.size());
    if (net_status_.ok()) net_status_ = ChooseNet(num_samples);
    if (!net_status_.ok()) return std::numeric_limits<double>::quiet_NaN();
    return net_->Forward(FeedOf(batch), nullptr, need);
  }
  // Starts the upload of the next batch here and not in Forward, where it would delay the upload of
  // the parameters.
  void Backward(const std::function<void(uint32_t)>& ready) override {
    const data::Batch* next = std::exchange(announced_batch_, nullptr);
    if (next != nullptr && next->labels.size() == batch_size_) net_->Stage(FeedOf(*next));
    net_->Backward(ready);
  }
  bool TakesBytes() const override { return pixels_.has_value(); }
  data::PinFunction BytesPin() const override {
    if (!TakesBytes()) return nullptr;
    return [net = net_](const void* begin, size_t bytes) { return net->Pin(begin, bytes); };
  }
  void AnnounceNextBatch(const data::Batch* next) override {
    announced_batch_ = TakesBytes() ? next : nullptr;
  }
  void ReleaseBatches() override {
    announced_batch_ = nullptr;
    if (net_ != nullptr) net_->Unstage();
  }
  Status status() const override { return net_status_.ok() ? net_->status() : net_status_; }

 private:
  const setup::Setup& setup_;
  const uint32_t rank_;
  const engine::Net::Arenas arenas_;
  const engine::Device device_;
  const std::optional<kernels::PixelRule> pixels_;
  // The key is the batch size. On a CPU a net drops those of smaller sizes before it is planned,
  // because a growing batch needs their memory. On a GPU there are those of all sizes,
  // because the batches that the prefetcher holds are page-locked through one of them.
  std::map<uint32_t, std::unique_ptr<engine::Net>> nets_;
  engine::Net* net_ = nullptr;  // null: it could not be planned
  uint32_t batch_size_ = 0;     // The batch size of net_.
  const data::Batch* announced_batch_ =
      nullptr;         // The next batch, whose upload Backward starts; null if there is none.
  Status net_status_;  // The first error in planning a net; a device may have too little memory.
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

engine::Net::Feed FeedOf(const data::Batch& batch) {
  engine::Net::Feed feed;
  feed.images = batch.images;
  feed.labels = batch.labels;
  feed.used = static_cast<uint32_t>(batch.labels.size());
  feed.step = batch.step;
  feed.bytes = batch.bytes;
  feed.draws = batch.draws;
  return feed;
}

Result<std::unique_ptr<BatchCompute>> MakeNetCompute(
    const setup::Setup& setup, uint32_t rank, const engine::Net::Arenas& arenas,
    const std::optional<kernels::PixelRule>& pixels) {
  auto compute = std::make_unique<NetCompute>(setup, rank, arenas, pixels);
  TERN_RETURN_IF_ERROR(compute->PlanNets());
  return std::unique_ptr<BatchCompute>(std::move(compute));
}

}  // namespace tern::worker
