#include "common/setup/step_figures.h"

#include <algorithm>
#include <numeric>

namespace tern::setup {

namespace {

double Ratio(double seconds, uint64_t count) {
  return count == 0 ? 0 : seconds / static_cast<double>(count);
}

}  // namespace

double StepFigures::equation_2_s() const {
  return t_com_s <= t_cop_s ? t_cop_s : (t_cop_s + t_com_s) / 2;
}

double StepFigures::bounded_s() const {
  return std::max({t_cop_s, busy_s, (t_cop_s + t_com_s) / 2});
}

StepFigures StepFiguresOf(const std::vector<pb::Counters>& workers) {
  StepFigures f;
  const auto n = static_cast<double>(std::max<size_t>(workers.size(), 1));
  for (const pb::Counters& c : workers) {
    f.t_cop_s += Ratio(c.compute_s(), c.steps()) / n;
    f.t_com_s += Ratio(c.exchange_s(), c.exchanges()) / n;
    f.busy_s += Ratio(c.exchange_busy_s(), c.exchanges()) / n;
    f.step_s += Ratio(c.train_s(), c.rounds()) / n;
    f.gradients += c.steps();
    f.exchanges += c.exchanges();
    f.local_steps += c.steps() - std::min(c.steps(), c.exchanges());
    f.late += c.late();
    f.dropped += c.dropped();
    f.staleness.resize(std::max<size_t>(f.staleness.size(), c.staleness_size()));
    for (int i = 0; i < c.staleness_size(); ++i) f.staleness[i] += c.staleness(i);
  }
  const uint64_t pushes = std::accumulate(f.staleness.begin(), f.staleness.end(), uint64_t{0});
  double sum = 0;
  for (size_t i = 0; i < f.staleness.size(); ++i)
    sum += static_cast<double>(i) * static_cast<double>(f.staleness[i]);
  f.mean_staleness = Ratio(sum, pushes);
  return f;
}

}  // namespace tern::setup
