#include "setup/step_figures.h"

#include <algorithm>
#include <numeric>

namespace tern::setup {

namespace {

double Ratio(double seconds, uint64_t count) {
  return count == 0 ? 0 : seconds / static_cast<double>(count);
}

// The mean of seconds / count over the workers with a non-zero count.
class Mean {
 public:
  void Add(double seconds, uint64_t count) {
    sum_of_ratios_ += Ratio(seconds, count);
    if (count != 0) ++num_workers_;
  }
  double value() const { return Ratio(sum_of_ratios_, num_workers_); }

 private:
  double sum_of_ratios_ = 0;
  uint64_t num_workers_ = 0;
};

}  // namespace

double StepFigures::equation_2_s() const {
  return t_com_s <= t_cop_s ? t_cop_s : (t_cop_s + t_com_s) / 2;
}

double StepFigures::bounded_s() const {
  return std::max({t_cop_s, busy_s, (t_cop_s + t_com_s) / 2});
}

StepFigures StepFiguresOf(const std::vector<pb::Counters>& workers) {
  StepFigures f;
  Mean t_cop_s, t_com_s, busy_s, step_s;
  for (const pb::Counters& c : workers) {
    t_cop_s.Add(c.compute_s(), c.steps());
    t_com_s.Add(c.exchange_s(), c.exchanges());
    busy_s.Add(c.exchange_busy_s(), c.exchanges());
    step_s.Add(c.train_s(), c.rounds());
    f.gradients += c.steps();
    f.exchanges += c.exchanges();
    f.local_steps += c.steps() - std::min(c.steps(), c.exchanges());
    f.late += c.late();
    f.dropped += c.dropped();
    f.staleness.resize(std::max<size_t>(f.staleness.size(), c.staleness_size()));
    for (int i = 0; i < c.staleness_size(); ++i) f.staleness[i] += c.staleness(i);
  }
  f.t_cop_s = t_cop_s.value();
  f.t_com_s = t_com_s.value();
  f.busy_s = busy_s.value();
  f.step_s = step_s.value();
  const uint64_t pushes = std::accumulate(f.staleness.begin(), f.staleness.end(), uint64_t{0});
  double sum = 0;
  for (size_t i = 0; i < f.staleness.size(); ++i)
    sum += static_cast<double>(i) * static_cast<double>(f.staleness[i]);
  f.mean_staleness = Ratio(sum, pushes);
  return f;
}

}  // namespace tern::setup
