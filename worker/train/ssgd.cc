// Synchronous SGD; with localized parameters and ternary codes, TernGrad's Algorithm 1.
//
//   input z_t^(i)          the batch of this worker
//   compute g_t^(i)        forward, backward at W(t-1); buckets leave while backward still runs
//   ternarize, push        coder.h
//   pull mean gradient     wait for the answers of all chunks;
//   update w               apply.h, each bucket as it comes where that may be
#include "worker/train/algorithms.h"

namespace tern::train {

namespace {

class Ssgd : public Algorithm {
 public:
  explicit Ssgd(const Context& context)
      : Algorithm(context), apply_(c_.setup, c_.replica, c_.sums) {}

  Status Step(uint64_t step, const data::Batch& batch) override {
    // Who is late, or has just joined, goes through the rounds that closed without it.
    if (!c_.sums.Has(step)) {
      if (batch.labels.empty()) {
        c_.coder.Skip(step);
      } else {
        c_.gradient.Take(
            batch, [&](uint32_t bucket) { c_.coder.Push(step, bucket, c_.replica.gradients()); });
      }
    }
    return ApplyRound(step, apply_);
  }

 private:
  Apply apply_;
};

}  // namespace

std::unique_ptr<Algorithm> MakeSsgd(const Context& context) {
  return std::make_unique<Ssgd>(context);
}

}  // namespace tern::train
