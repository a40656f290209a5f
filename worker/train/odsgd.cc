// OD-SGD, Algorithm 2 (wp: warm-up; num = step - 1). Every step computes g_s at point w'_s and
// pushes it as round s.
//
//   s <= wp       wait for the sum of s; w'_{s+1} = W(s), as ssgd
//   s == wp + 1   still at W(s-1): w'_{s+1} = W(s-1) + U_local(g_s), whose compensation is 0
//   s >  wp + 1   wait for the sum of s - 1 only; w'_{s+1} = W(s-1) + U_local(g_s)
//
// so from wp + 1 on the exchange of g_s is under way while g_{s+1} is computed: two rounds are
// open. The point starts from W again each step: local updates never add up. U_local gets the raw
// gradient, whatever the codec. Evaluation and weights are of W, never of w'.
#include <algorithm>
#include <cmath>

#include "common/base/logging.h"
#include "common/update/local_updater.h"
#include "worker/train/algorithms.h"

namespace tern::train {

namespace {

uint64_t WarmupSteps(const pb::Odsgd& job, uint64_t steps_an_epoch) {
  if (job.has_warmup_epochs())
    return static_cast<uint64_t>(
        std::llround(job.warmup_epochs() * static_cast<double>(steps_an_epoch)));
  return job.has_warmup_steps() ? job.warmup_steps() : 200;
}

class Odsgd : public Algorithm {
 public:
  explicit Odsgd(const Context& context)
      : Algorithm(context),
        job_(c_.setup.job.train().odsgd()),
        warmup_(WarmupSteps(job_, context.steps_an_epoch)),
        round_(MakeOpenRound()),
        size_(c_.setup.table.total),
        pushed_{std::vector<float>(size_), std::vector<float>(size_)} {
    auto made = update::MakeLocalUpdater(job_.local(), size_, c_.setup.plan.workers);
    CHECK(made.ok()) << made.status().message();  // the setup made one before
    local_ = std::move(*made);
    for (uint32_t t = 0; t < c_.setup.table.parameters.size(); ++t)
      decay_.push_back(DecayOf(c_.setup, t, pb::WeightDecay::local));
    if (job_.local().reference() == pb::LocalUpdater::prev_global) before_.resize(size_);
  }

  // A worker that comes back starts w' afresh, at W.
  Status Begin(uint64_t applied) override {
    TERN_RETURN_IF_ERROR(Algorithm::Begin(applied));
    last_pushed_ = applied;
    std::copy_n(c_.replica.parameters(), size_, c_.replica.point());
    if (!before_.empty()) std::copy_n(c_.replica.parameters(), size_, before_.data());
    return Ok();
  }

  Status Step(uint64_t s, const data::Batch& batch) override {
    if (c_.sums.Has(s)) {  // this worker is late: it goes through the rounds that closed without it
      last_pushed_ = s;
      TERN_RETURN_IF_ERROR(ApplyUpTo(s));
      std::copy_n(c_.replica.parameters(), size_, c_.replica.point());
      return Ok();
    }
    // The next backward writes over the gradients while these are still being coded.
    std::vector<float>& pushed = pushed_[s % 2];
    if (batch.labels.empty()) return StepWithout(s);
    TERN_RETURN_IF_ERROR(c_.gradient.Take(batch, [&](uint32_t b) {
      const protocol::Bucket& bucket = c_.setup.plan.buckets[b];
      std::copy_n(c_.replica.gradients() + bucket.begin, bucket.count,
                  pushed.data() + bucket.begin);
      c_.coder.Push(s, b, pushed.data());
    }));
    last_pushed_ = s;
    if (s <= warmup_) {
      TERN_RETURN_IF_ERROR(ApplyUpTo(s));
      std::copy_n(c_.replica.parameters(), size_, c_.replica.point());
      return Ok();
    }
    TERN_RETURN_IF_ERROR(ApplyUpTo(s - 1));
    UpdateLocally(s);
    return Ok();
  }

  // No data left in this epoch: no gradient, no local update.
  Status StepWithout(uint64_t s) {
    c_.coder.Skip(s);
    last_pushed_ = s;
    TERN_RETURN_IF_ERROR(ApplyUpTo(s <= warmup_ ? s : s - 1));
    std::copy_n(c_.replica.parameters(), size_, c_.replica.point());
    return Ok();
  }

  // The point stays what it is: the next step is the same whether or not somebody looked.
  Status Settle() override { return ApplyUpTo(last_pushed_); }
  uint64_t pushed() const override { return last_pushed_; }
  void AddState(SavedState* state) override {
    if (!before_.empty()) state->arrays.push_back({"local.before", before_});
    for (const update::Optimizer::Slot& slot : local_->Slots())
      state->arrays.push_back({"local." + slot.name, slot.values});
  }

 private:
  Status ApplyUpTo(uint64_t round) {
    while (applied_ < round) {
      if (!before_.empty()) std::copy_n(c_.replica.parameters(), size_, before_.data());
      round_.Open(applied_ + 1);
      TERN_RETURN_IF_ERROR(round_.Finish());
    }
    return Ok();
  }

  // w'_{s+1} = W(s-1) + U_local(g_s)
  void UpdateLocally(uint64_t s) {
    TimeScope decode(c_.progress.decode);
    float* point = c_.replica.point();
    const float* reference = before_.empty() ? point : before_.data();
    for (uint32_t t = 0; t < decay_.size(); ++t) {
      const uint64_t first = c_.setup.plan.tensor_begin[t];
      local_->Next(c_.replica.parameters() + first, c_.replica.gradients() + first,
                   reference + first, RateOf(s), point + first, c_.setup.plan.tensor_count[t],
                   first, decay_[t]);
    }
  }

  const pb::Odsgd& job_;
  const uint64_t warmup_;  // wp
  OpenRound round_;
  const size_t size_;
  std::vector<float> pushed_[2];  // gradients of the open rounds, by round
  std::vector<float> before_;     // W(s-2), where the compensation is against it
  std::unique_ptr<update::LocalUpdater> local_;
  std::vector<float> decay_;  // by tensor, where it is not in the gradient
  uint64_t last_pushed_ = 0;
};

}  // namespace

std::unique_ptr<Algorithm> MakeOdsgd(const Context& context) {
  return std::make_unique<Odsgd>(context);
}

}  // namespace tern::train
