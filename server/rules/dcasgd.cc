// Delay-compensated ASGD (Zheng et al. 2017; OD-SGD, equations 4 to 6): at every push of worker m,
//
//   g' = g + lambda g g (w - w_bak(m))     dcasgd_a: lambda / sqrt(MS + 1e-7) in lambda's place
//   w <- optimizer(w, g')
//
// The answer then sets w_bak(m) = w, the weights at which worker m computes its next gradient; at
// first, w_bak is the initial weights. MS is a moving mean square of gradients, one per worker or
// one for all (mean_square_scope). If the gradient was not computed at w_bak(m), because an answer
// was lost and repeated, g is applied without the term. If workers compute the term themselves
// (protocol::WorkersFormTerm), a push is applied as it is.
#include <utility>

#include "common/protocol/plan/codec_options.h"
#include "common/update/delay_compensation.h"
#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class Dcasgd : public ClockRule {
 public:
  Dcasgd(std::unique_ptr<CentralChunk> chunk, Rate rate, const pb::Dcasgd& job, bool adaptive)
      : ClockRule(std::move(chunk), std::move(rate)),
        formed_here_(!protocol::WorkersFormTerm(central().setup().job)) {
    if (!formed_here_) return;
    const std::span<const float> w = central().weights();
    backups_.assign(workers(), std::vector<float>(w.begin(), w.end()));
    backed_up_.assign(workers(), 0);
    const bool one = !adaptive || job.mean_square_scope() == pb::Dcasgd::global;
    for (uint32_t i = 0; i < (one ? 1 : workers()); ++i) {
      compensations_.push_back(
          adaptive ? update::DelayCompensation::Adaptive(job.lambda(), job.rho(), w.size())
                   : update::DelayCompensation::Constant(job.lambda()));
    }
  }

  Answer Pull(uint32_t rank, std::optional<uint64_t> holds) override {
    Answer answer = ClockRule::Pull(rank, holds);
    if (!formed_here_) return answer;
    const std::span<const float> held = Held(rank, central().weights());
    backups_[rank].assign(held.begin(), held.end());
    backed_up_[rank] = version();
    return answer;
  }

  void AddState(SavedState* state) override {
    ClockRule::AddState(state);
    for (size_t i = 0; i < backups_.size(); ++i) {
      const std::string name = "backup." + std::to_string(i);
      state->arrays.push_back({name, backups_[i]});
      state->numbers.push_back({name, &backed_up_[i]});
    }
    for (size_t i = 0; i < compensations_.size(); ++i) {
      for (const update::Optimizer::StateArray& slot : compensations_[i].StateArrays())
        state->arrays.push_back({slot.name + "." + std::to_string(i), slot.values});
    }
  }

 private:
  void ApplyPush(uint32_t rank, uint64_t base, std::span<float> g) override {
    if (formed_here_) {
      const float* w = central().weights().data();
      const float* backup = base == backed_up_[rank] ? backups_[rank].data() : w;
      compensations_[compensations_.size() == 1 ? 0 : rank].Apply(g.data(), w, backup, 0, g.size(),
                                                                  g.data());
    }
    central().Apply(g, learning_rate());
  }

  const bool formed_here_;
  std::vector<std::vector<float>> backups_;  // w_bak, by worker
  std::vector<uint64_t> backed_up_;          // by worker: the version of its backup
  std::vector<update::DelayCompensation> compensations_;
};

}  // namespace

std::unique_ptr<ClockRule> MakeDcasgdC(std::unique_ptr<CentralChunk> central, Rate rate) {
  const pb::Dcasgd& job = central->setup().job.train().dcasgd_c();
  return std::make_unique<Dcasgd>(std::move(central), std::move(rate), job, false);
}

std::unique_ptr<ClockRule> MakeDcasgdA(std::unique_ptr<CentralChunk> central, Rate rate) {
  const pb::Dcasgd& job = central->setup().job.train().dcasgd_a();
  return std::make_unique<Dcasgd>(std::move(central), std::move(rate), job, true);
}

}  // namespace tern::server
