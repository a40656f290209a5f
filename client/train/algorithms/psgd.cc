// PSGD (PQASGD paper, section 3.2; docs/ALGORITHMS.md, section 10): local steps. After every p-th
// step, and after the last, the n workers average all parameters. x_{j,i} are worker i's weights, g
// is its gradient, gamma the learning rate. In iteration j, from 0:
//
//   x_{j+1,i} = x_{j,i} - gamma g(x_{j,i})
//   x_{j+1,i} = 1/n sum_k x_{j+1,k}           if p divides j + 1
//
// The paper has p dividing j; section 10 says why Tern has not. The job's key psgd.at_sync says
// what then happens to the optimizer's state, whose arrays are called slots: with `keep` each
// worker keeps its own state, `reset` sets the state to zero, `average` averages it over the
// workers like the parameters. With the key psgd.outer, the mean is not what the weights become: an
// outer optimizer makes a step towards it from the weights of the last synchronization
// (outer_step.h).
#include "client/train/algorithms.h"
#include "client/train/local_steps.h"
#include "client/train/outer_step.h"
#include "common/base/trace.h"

namespace tern::client {

namespace {

class Psgd : public LocalSteps {
 public:
  explicit Psgd(const Context& context)
      : LocalSteps(context),
        at_sync_(context_.setup.job.train().psgd().at_sync()),
        outer_step_(context_.setup, context_.replica) {
    if (at_sync_ != pb::OptimizerState::average) return;
    for (const update::Optimizer::StateArray& slot : context_.replica.optimizer().StateArrays())
      slots_.push_back(slot.values);
  }

  Bytes SaveState() override { return context_.state.Save(applied_, agreed_slots_); }

  Status Begin(uint64_t applied) override {
    TERN_RETURN_IF_ERROR(LocalSteps::Begin(applied));
    CopySlots();
    return Ok();
  }

  Status Step(uint64_t step) override {
    const uint64_t round = RoundOf(step);
    // Answers before this worker's push mean that the worker is late: the round closed without it.
    if (!context_.sums.HasAnswers(round)) {
      TERN_RETURN_IF_ERROR(Descend(step));
      if (!EndsRound(step)) return Ok();
      PushArenas(round);
      TERN_RETURN_IF_ERROR(AwaitSums(round));
    } else if (!EndsRound(step)) {
      return Ok();
    }
    return Synchronize(round);
  }

 private:
  // Returns the array to which a bucket belongs: this worker's weights, or an array of its
  // optimizer's state.
  float* ArenaOf(uint32_t bucket) {
    const uint32_t arena_index = context_.setup.plan.buckets[bucket].arena_index;
    return arena_index == 0 ? context_.replica.point() : slots_[arena_index - 1].data();
  }
  void PushArenas(uint64_t round) {
    for (uint32_t b = 0; b < context_.setup.plan.buckets.size(); ++b)
      context_.coder.Push(round, b, ArenaOf(b));
  }
  Status Synchronize(uint64_t round) {
    TimeScope decode_scope(context_.progress.decode_time);
    const TraceSpan span("decode, update", {.round = round});
    for (uint32_t b = 0; b < context_.setup.plan.buckets.size(); ++b) {
      const bool has_weights = context_.setup.plan.buckets[b].arena_index == 0;
      TERN_RETURN_IF_ERROR(context_.sums.Decode(
          round, b, [&](uint32_t, uint64_t first, std::span<const float> mean) {
            if (has_weights)
              outer_step_.MoveToMean(round, first, mean);
            else
              std::copy(mean.begin(), mean.end(), ArenaOf(b) + first);
          }));
    }
    context_.replica.UpdateMovingAverage(0, num_parameters_, round);
    std::copy_n(context_.replica.parameters(), num_parameters_, context_.replica.point());
    if (at_sync_ == pb::OptimizerState::reset) ResetOptimizer();
    MarkApplied(round);
    CopySlots();
    return Ok();
  }
  // Copies the slots after a synchronization. Another worker that needs the state later gets this
  // copy, because this worker's slots change in its next local step.
  void CopySlots() {
    agreed_slots_.clear();
    for (const std::span<float>& slot : slots_)
      agreed_slots_.emplace_back(slot.begin(), slot.end());
  }

  const pb::OptimizerState::AtSync at_sync_;
  OuterStep outer_step_;
  // slots_: the arrays of the optimizer's state, if workers average them; else empty.
  // agreed_slots_: copies of slots_ as they were after the last synchronization.
  std::vector<std::span<float>> slots_;
  std::vector<std::vector<float>> agreed_slots_;
};

}  // namespace

std::unique_ptr<Algorithm> MakePsgd(const Context& context) {
  return std::make_unique<Psgd>(context);
}

}  // namespace tern::client
