#include "setup/step_figures.h"

#include <algorithm>
#include <numeric>

namespace tern::setup {

namespace {

double Ratio(double seconds, uint64_t count) {
  return count == 0 ? 0 : seconds / static_cast<double>(count);
}

// The mean of seconds / count over the workers with a non-zero count.
class MeanOfWorkers {
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
  StepFigures figures;
  MeanOfWorkers t_cop_s, t_com_s, busy_s, step_s;
  for (const pb::Counters& counters : workers) {
    t_cop_s.Add(counters.compute_s(), counters.steps());
    t_com_s.Add(counters.exchange_s(), counters.exchanges());
    busy_s.Add(counters.exchange_busy_s(), counters.exchanges());
    step_s.Add(counters.train_s(), counters.rounds());
    figures.gradients += counters.steps();
    figures.exchanges += counters.exchanges();
    figures.local_steps += counters.steps() - std::min(counters.steps(), counters.exchanges());
    figures.late += counters.late();
    figures.dropped += counters.dropped();
    figures.staleness.resize(std::max<size_t>(figures.staleness.size(), counters.staleness_size()));
    for (int i = 0; i < counters.staleness_size(); ++i)
      figures.staleness[i] += counters.staleness(i);
  }
  figures.t_cop_s = t_cop_s.value();
  figures.t_com_s = t_com_s.value();
  figures.busy_s = busy_s.value();
  figures.step_s = step_s.value();
  const uint64_t num_pushes =
      std::accumulate(figures.staleness.begin(), figures.staleness.end(), uint64_t{0});
  double staleness_sum = 0;
  for (size_t i = 0; i < figures.staleness.size(); ++i)
    staleness_sum += static_cast<double>(i) * static_cast<double>(figures.staleness[i]);
  figures.mean_staleness = Ratio(staleness_sum, num_pushes);
  return figures;
}

}  // namespace tern::setup
