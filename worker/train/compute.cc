#include "worker/train/compute.h"

#include <map>
#include <utility>

#include "common/base/logging.h"

namespace tern::train {

namespace {

class NetCompute : public Compute {
 public:
  NetCompute(const setup::Setup& setup, uint32_t rank, const engine::Net::Arenas& arenas)
      : setup_(setup), rank_(rank), arenas_(arenas) {}

  Status Choose(uint32_t batch) {
    std::unique_ptr<engine::Net>& net = nets_[batch];
    if (net == nullptr) {
      const engine::Net::Options options = {
          .batch = batch,
          .seed = setup_.job.seed(),
          .rank = static_cast<uint16_t>(rank_),
          .bf16 = setup_.job.train().precision() == pb::Train::bf16};
      auto made = engine::Net::Make(setup_.net, options, arenas_);
      if (!made.ok()) return made.status();
      net = std::move(*made);
    }
    net_ = net.get();
    return Ok();
  }
  double Forward(const data::Batch& batch, const engine::Need& need) override {
    const auto samples = static_cast<uint32_t>(batch.labels.size());
    // The first size was tried when this was made; another size of the same net fits too.
    const Status chosen = Choose(samples);
    CHECK(chosen.ok()) << chosen.message();
    return net_->Forward({batch.images, batch.labels, samples, batch.step}, nullptr, need);
  }
  void Backward(const std::function<void(uint32_t)>& ready) override { net_->Backward(ready); }

 private:
  const setup::Setup& setup_;
  const uint32_t rank_;
  const engine::Net::Arenas arenas_;
  std::map<uint32_t, std::unique_ptr<engine::Net>> nets_;  // by batch
  engine::Net* net_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Compute>> MakeNetCompute(const setup::Setup& setup, uint32_t rank,
                                                const engine::Net::Arenas& arenas) {
  auto compute = std::make_unique<NetCompute>(setup, rank, arenas);
  TERN_RETURN_IF_ERROR(compute->Choose(setup.job.train().batch_total() / setup.plan.workers));
  return std::unique_ptr<Compute>(std::move(compute));
}

}  // namespace tern::train
