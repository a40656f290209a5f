#include "worker/wait_compute.h"

#include <chrono>
#include <memory>
#include <thread>

#include "kernels/codes/philox.h"
#include "models/graph/normal.h"

namespace tern::worker {

namespace {

class WaitCompute : public BatchCompute {
 public:
  using Clock = std::chrono::steady_clock;

  WaitCompute(const setup::Setup& setup, const pb::Train& train, uint32_t rank, float* gradients)
      : setup_(setup), train_(train) {
    kernels::NoiseKey key{.seed = setup.job.seed(),
                          .stream = kernels::NoiseStream::kInit,
                          .rank = static_cast<uint16_t>(rank + 1)};
    for (uint64_t i = 0; i < setup.table.total; i += 4) {
      const auto words = kernels::NoiseBlock(key, static_cast<uint32_t>(i / 4), 0);
      for (uint64_t k = 0; k < 4 && i + k < setup.table.total; ++k) {
        const double probability = (words[k] + 0.5) * 0x1p-32;
        gradients[i + k] = static_cast<float>(1e-3 * models::NormalQuantile(probability));
      }
    }
  }

  double Forward(const data::Batch& batch, const engine::Need& need) override {
    step_begin_ = Clock::now();
    const uint64_t slow_from = train_.compute_slow_from();
    const uint64_t slow_steps = train_.compute_slow_steps();
    const uint64_t step = batch.step + 1;
    const bool is_slow = step >= slow_from && (slow_steps == 0 || step < slow_from + slow_steps);
    step_time_ = std::chrono::duration<double, std::milli>(
        train_.compute_wait_ms() * (is_slow ? train_.compute_slow_factor() : 1));
    double share_done = 0;
    for (uint32_t t = 0; need && t < setup_.table.parameters.size(); ++t) {
      WaitUntil(share_done / 3);
      const Clock::time_point before_need = Clock::now();
      if (!need(t)) return 0;
      step_begin_ += Clock::now() - before_need;
      share_done += static_cast<double>(setup_.table.parameters[t].count) /
                    static_cast<double>(setup_.table.total);
    }
    WaitUntil(1.0 / 3);
    return 0;
  }
  void Backward(const std::function<void(uint32_t)>& ready) override {
    uint64_t elements_done = 0;
    for (auto t = static_cast<uint32_t>(setup_.table.parameters.size()); t-- > 0;) {
      elements_done += setup_.table.parameters[t].count;
      WaitUntil(1.0 / 3 + 2.0 / 3 * static_cast<double>(elements_done) /
                              static_cast<double>(setup_.table.total));
      ready(t);
    }
  }

 private:
  // Waits until the share `share` (0 to 1) of the step's time has passed since step_begin_.
  void WaitUntil(double share) const {
    std::this_thread::sleep_until(step_begin_ +
                                  std::chrono::duration_cast<Clock::duration>(step_time_ * share));
  }

  const setup::Setup& setup_;
  const pb::Train& train_;
  std::chrono::duration<double> step_time_{};
  Clock::time_point
      step_begin_;  // When the step began, plus the time spent in `need`, which does not count.
};

}  // namespace

std::unique_ptr<BatchCompute> MakeWaitCompute(const setup::Setup& setup, const pb::Train& train,
                                              uint32_t rank, float* gradients) {
  return std::make_unique<WaitCompute>(setup, train, rank, gradients);
}

}  // namespace tern::worker
