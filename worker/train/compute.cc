#include "worker/train/compute.h"

#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "common/base/logging.h"
#include "kernels/philox.h"
#include "worker/engine/net.h"

namespace tern::train {

namespace {

class NetCompute : public Compute {
 public:
  NetCompute(const setup::Setup& setup, const float* parameters, float* gradients)
      : setup_(setup), parameters_(parameters), gradients_(gradients) {}

  Status Choose(uint32_t batch) {
    std::unique_ptr<engine::Net>& net = nets_[batch];
    if (net == nullptr) {
      auto made = engine::Net::Make(setup_.net, {batch, true}, parameters_, gradients_);
      if (!made.ok()) return made.status();
      net = std::move(*made);
    }
    net_ = net.get();
    return Ok();
  }
  double Forward(const data::Batch& batch) override {
    const auto samples = static_cast<uint32_t>(batch.labels.size());
    // The first size was tried when this was made; another size of the same net fits too.
    const Status chosen = Choose(samples);
    CHECK(chosen.ok()) << chosen.message();
    return net_->Forward(batch.images, batch.labels, samples, nullptr);
  }
  void Backward(const std::function<void(uint32_t)>& ready) override { net_->Backward(ready); }

 private:
  const setup::Setup& setup_;
  const float* parameters_;
  float* gradients_;
  std::map<uint32_t, std::unique_ptr<engine::Net>> nets_;  // by batch
  engine::Net* net_ = nullptr;
};

class WaitCompute : public Compute {
 public:
  using Clock = std::chrono::steady_clock;

  WaitCompute(const setup::Setup& setup, const pb::Train& train, uint32_t rank, float* gradients)
      : setup_(setup), train_(train) {
    kernels::NoiseKey key{.seed = setup.job.seed(),
                          .stream = kernels::Stream::kCodes,
                          .rank = static_cast<uint16_t>(rank)};
    for (uint64_t i = 0; i < setup.table.total; i += 4) {
      const auto words = kernels::NoiseBlock(key, static_cast<uint32_t>(i / 4), 0);
      for (uint64_t k = 0; k < 4 && i + k < setup.table.total; ++k)
        gradients[i + k] = (static_cast<float>(words[k] >> 8) * 0x1p-24f - 0.5f) * 1e-3f;
    }
  }

  double Forward(const data::Batch& batch) override {
    begin_ = Clock::now();
    const uint64_t from = train_.compute_slow_from(), steps = train_.compute_slow_steps();
    const uint64_t step = batch.step + 1;
    const bool slow = step >= from && (steps == 0 || step < from + steps);
    wait_ = std::chrono::duration<double, std::milli>(train_.compute_wait_ms() *
                                                      (slow ? train_.compute_slow_factor() : 1));
    WaitUntil(1.0 / 3);
    return 0;
  }
  void Backward(const std::function<void(uint32_t)>& ready) override {
    uint64_t done = 0;
    for (auto t = static_cast<uint32_t>(setup_.table.parameters.size()); t-- > 0;) {
      done += setup_.table.parameters[t].count;
      WaitUntil(1.0 / 3 +
                2.0 / 3 * static_cast<double>(done) / static_cast<double>(setup_.table.total));
      ready(t);
    }
  }

 private:
  void WaitUntil(double share) const {
    std::this_thread::sleep_until(begin_ +
                                  std::chrono::duration_cast<Clock::duration>(wait_ * share));
  }

  const setup::Setup& setup_;
  const pb::Train& train_;
  std::chrono::duration<double> wait_{};
  Clock::time_point begin_;
};

}  // namespace

Result<std::unique_ptr<Compute>> MakeNetCompute(const setup::Setup& setup, const float* parameters,
                                                float* gradients) {
  auto compute = std::make_unique<NetCompute>(setup, parameters, gradients);
  TERN_RETURN_IF_ERROR(compute->Choose(setup.job.train().batch_total() / setup.plan.workers));
  return std::unique_ptr<Compute>(std::move(compute));
}

std::unique_ptr<Compute> MakeWaitCompute(const setup::Setup& setup, const pb::Train& train,
                                         uint32_t rank, float* gradients) {
  return std::make_unique<WaitCompute>(setup, train, rank, gradients);
}

}  // namespace tern::train
