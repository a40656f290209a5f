// Delay-compensated ASGD (Zheng et al. 2017; OD-SGD, equations 4 to 6): at every push of worker m,
//
//   g' = g + lambda g g (w - w_bak(m))     dcasgd_a: lambda / sqrt(MS + 1e-7) instead of lambda
//   w <- optimizer(w, g')
//
// g is the pushed gradient, w the server's weights. The answer then sets w_bak(m) = w, the weights
// at which worker m computes its next gradient; at first, w_bak is the initial weights. MS is a
// moving mean square of gradients: one per worker, or one for all workers (mean_square_scope). If
// the gradient was not computed at w_bak(m), because an answer was lost and repeated, g is applied
// without the compensation term. If workers compute the term themselves
// (protocol::WorkersFormTerm), the push already contains it, and the server adds none.
#include <utility>

#include "common/protocol/plan/codec_options.h"
#include "common/update/delay_compensation.h"
#include "server/rules/clock_rules.h"

namespace tern::server {
namespace {

class Dcasgd : public ClockRule {
 public:
  Dcasgd(std::unique_ptr<CentralChunk> chunk, Rate rate, const pb::Dcasgd& keys, bool is_adaptive)
      : ClockRule(std::move(chunk), std::move(rate)),
        compensates_here_(!protocol::WorkersFormTerm(central().setup().job)) {
    if (!compensates_here_) return;
    const std::span<const float> w = central().weights();
    backup_weights_.assign(workers(), std::vector<float>(w.begin(), w.end()));
    backup_version_.assign(workers(), 0);
    const bool is_shared = !is_adaptive || keys.mean_square_scope() == pb::Dcasgd::global;
    for (uint32_t i = 0; i < (is_shared ? 1 : workers()); ++i) {
      compensations_.push_back(
          is_adaptive ? update::DelayCompensation::MakeAdaptive(keys.lambda(), keys.rho(), w.size())
                      : update::DelayCompensation::MakeConstant(keys.lambda()));
    }
  }

  Answer Pull(uint32_t rank, std::optional<uint64_t> held_version) override {
    Answer answer = ClockRule::Pull(rank, held_version);
    if (!compensates_here_) return answer;
    const std::span<const float> weights_of_worker = HeldWeights(rank, central().weights());
    backup_weights_[rank].assign(weights_of_worker.begin(), weights_of_worker.end());
    backup_version_[rank] = version();
    return answer;
  }

  void AddState(SavedState* state) override {
    ClockRule::AddState(state);
    for (size_t i = 0; i < backup_weights_.size(); ++i) {
      const std::string name = "backup." + std::to_string(i);
      state->arrays.push_back({name, backup_weights_[i]});
      state->numbers.push_back({name, &backup_version_[i]});
    }
    for (size_t i = 0; i < compensations_.size(); ++i) {
      for (const update::Optimizer::StateArray& state_array : compensations_[i].StateArrays())
        state->arrays.push_back({state_array.name + "." + std::to_string(i), state_array.values});
    }
  }

 private:
  void ApplyPush(uint32_t rank, uint64_t base, std::span<float> g) override {
    if (compensates_here_) {
      const float* w = central().weights().data();
      const float* backup = base == backup_version_[rank] ? backup_weights_[rank].data() : w;
      compensations_[compensations_.size() == 1 ? 0 : rank].CompensateGradient(
          g.data(), w, backup, 0, g.size(), g.data());
    }
    central().ApplyGradient(g, learning_rate());
  }

  const bool compensates_here_;                           // false: the workers compute the term
  std::vector<std::vector<float>> backup_weights_;        // w_bak of each worker
  std::vector<uint64_t> backup_version_;                  // for each worker: the version of w_bak
  std::vector<update::DelayCompensation> compensations_;  // one per worker, or one for all
};

}  // namespace

std::unique_ptr<ClockRule> MakeDcasgdC(std::unique_ptr<CentralChunk> central, Rate rate) {
  const pb::Dcasgd& keys = central->setup().job.train().dcasgd_c();
  return std::make_unique<Dcasgd>(std::move(central), std::move(rate), keys, false);
}

std::unique_ptr<ClockRule> MakeDcasgdA(std::unique_ptr<CentralChunk> central, Rate rate) {
  const pb::Dcasgd& keys = central->setup().job.train().dcasgd_a();
  return std::make_unique<Dcasgd>(std::move(central), std::move(rate), keys, true);
}

}  // namespace tern::server
