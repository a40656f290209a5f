// Synchronous SGD. If the workers hold the parameters and the codes are ternary, it is TernGrad's
// Algorithm 1, whose lines for worker i in step t are on the left:
//
//   input z_t^(i)          takes this worker's batch
//   compute g_t^(i)        forward and backward at W(t-1), the weights after step t - 1
//   ternarize, push        encodes and pushes buckets (ranges of the model) while backward still
//                          runs (coder.h)
//   pull mean gradient     waits for the answers to all pushes
//   update w               applies each bucket when its answers arrive, if possible (apply.h)
//
// If buckets may be applied as they arrive, the last two lines move into the next forward pass,
// which applies a bucket just before the first layer that needs it (open_round.h). So the first
// layers run while answers for the last layers are under way. Every layer still reads W(t), so the
// results are bit-identical.
#include "client/train/algorithms.h"

namespace tern::client {

namespace {

class Ssgd : public Algorithm {
 public:
  explicit Ssgd(const Context& context)
      : Algorithm(context),
        open_round_(MakeOpenRound()),
        applies_in_forward_(facts_.applies_in_forward),
        holds_weights_(context_.replica.holds_weights()),
        applies_in_backward_(!holds_weights_ && open_round_.applies_by_bucket()) {}

  Status Step(uint64_t step) override {
    // A late worker, or one that has just joined, applies the rounds that closed without it. The
    // program of a client's job computes all steps. A worker without samples skips the round.
    const bool is_late = holds_weights_ && context_.sums.HasAnswers(step);
    if (is_late || !context_.gradient.has_samples()) {
      TERN_RETURN_IF_ERROR(open_round_.Finish());
      if (!context_.sums.HasAnswers(step)) context_.coder.SkipRound(step);
    } else {
      if (applies_in_backward_) open_round_.OpenEarly(step);
      TERN_RETURN_IF_ERROR(context_.gradient.ForwardBackward(
          [this](uint32_t tensor) { return open_round_.AwaitTensor(tensor); },
          [&](uint32_t bucket) {
            context_.coder.Push(step, bucket, context_.replica.gradients());
            if (applies_in_backward_) open_round_.Permit(bucket);
          }));
    }
    if (open_round_.round() != step && applied_ < step) open_round_.Open(step);
    return applies_in_forward_ ? Ok() : open_round_.Finish();
  }

  Status OnAnswers() override { return applies_in_backward_ ? open_round_.ApplyArrived() : Ok(); }
  Status Drain() override { return open_round_.Finish(); }
  uint64_t last_pushed_round() const override { return open_round_.round().value_or(applied_); }

 private:
  OpenRound open_round_;
  const bool applies_in_forward_;
  // False in a client's job, whose programs have the weights. Means then go to the program while
  // later layers' gradients are still computed.
  const bool holds_weights_, applies_in_backward_;
};

}  // namespace

std::unique_ptr<Algorithm> MakeSsgd(const Context& context) {
  return std::make_unique<Ssgd>(context);
}

}  // namespace tern::client
