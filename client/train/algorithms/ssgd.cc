// Synchronous SGD. If the workers hold the parameters and the codes are ternary, it is TernGrad's
// Algorithm 1, whose lines for worker i in step t are on the left:
//
//   input z_t^(i)          takes this worker's batch
//   compute g_t^(i)        forward and backward at W(t-1), the weights after step t - 1
//   ternarize, push        encodes and pushes buckets while backward still runs (coder.h)
//   pull mean gradient     waits for the answers of all chunks
//   update w               applies each bucket when its answers arrive, if possible (apply.h)
//
// If buckets may be applied as they arrive, the last two lines move into the next forward pass,
// which applies a bucket just before the first layer that needs it (open_round.h). So its first
// layers run while answers for the last layers are under way. Every layer still reads W(t), so the
// results are bit-identical.
#include "client/train/algorithms.h"

namespace tern::client {

namespace {

class Ssgd : public Algorithm {
 public:
  explicit Ssgd(const Context& context)
      : Algorithm(context), round_(MakeOpenRound()), in_forward_(facts_.applied_in_forward) {}

  Status Step(uint64_t step) override {
    // A worker that is late, or has just joined, applies the rounds that closed without it.
    if (c_.sums.Has(step) || !c_.gradient.has_samples()) {
      TERN_RETURN_IF_ERROR(round_.Finish());
      if (!c_.sums.Has(step)) c_.coder.Skip(step);
    } else {
      TERN_RETURN_IF_ERROR(c_.gradient.ForwardBackward(
          [this](uint32_t tensor) { return round_.Need(tensor); },
          [&](uint32_t bucket) { c_.coder.Push(step, bucket, c_.replica.gradients()); }));
    }
    round_.Open(step);
    return in_forward_ ? Ok() : round_.Finish();
  }

  Status Drain() override { return round_.Finish(); }
  uint64_t pushed() const override { return round_.round().value_or(applied_); }

 private:
  OpenRound round_;
  const bool in_forward_;
};

}  // namespace

std::unique_ptr<Algorithm> MakeSsgd(const Context& context) {
  return std::make_unique<Ssgd>(context);
}

}  // namespace tern::client
