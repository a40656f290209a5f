#include "common/protocol/members/shard0/stragglers.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"

namespace tern::protocol {

namespace {

constexpr uint64_t kMinSteps = 5;
constexpr Time kMinTime = std::chrono::seconds(2), kWarmUp = std::chrono::seconds(3);
constexpr double kSlowFactor = 1.5, kNotSlowFactor = 1.3;
constexpr Time kLeastBetweenLogs = std::chrono::minutes(1);

std::string MillisecondsText(double seconds) {
  return FormatWith(seconds < 0.01 ? "%.1f ms" : "%.0f ms", 1000 * seconds);
}

}  // namespace

std::string Stragglers::OnCounters(uint32_t rank, const pb::Counters& counters, Time now) {
  Worker& worker = workers_[rank];
  if (!std::isfinite(counters.compute_s()) || counters.compute_s() < 0) return "";
  const uint64_t num_steps = counters.has_steps() ? counters.steps() : counters.rounds();
  if (num_steps > 0 && !worker.first_heard_at.has_value()) worker.first_heard_at = now;
  if (!worker.first_heard_at.has_value() || now - *worker.first_heard_at < kWarmUp) return "";
  if (!worker.samples.empty() && num_steps <= worker.samples.back().steps) return "";
  worker.samples.push_back({num_steps, counters.compute_s(), now});
  const auto is_long_enough = [&](const Sample& first) {
    return first.steps + kMinSteps <= num_steps && first.at + kMinTime <= now;
  };
  while (worker.samples.size() > 2 && is_long_enough(worker.samples[1])) worker.samples.pop_front();
  const Sample& first_sample = worker.samples.front();
  if (!is_long_enough(first_sample)) return "";
  worker.step_s = (counters.compute_s() - first_sample.compute_s) /
                  static_cast<double>(num_steps - first_sample.steps);
  const double others_s = MedianOfOthers(rank);
  if (others_s <= 0) return "";
  if (worker.logged_at.has_value() && now - *worker.logged_at < kLeastBetweenLogs) return "";
  const std::string times_text = MillisecondsText(worker.step_s) + " a step, " +
                                 (workers_.size() == 2 ? "the other " : "the others ") +
                                 MillisecondsText(others_s);
  if (worker.logged_step_s != 0 && worker.step_s < kNotSlowFactor * others_s) {
    worker.logged_step_s = 0;
    worker.logged_at = now;
    return " is not slow any more: " + times_text;
  }
  const bool is_slow = worker.step_s > kSlowFactor * others_s;
  // Reports a slow worker once, and again if its step time has changed by more than kSlowFactor.
  if (!is_slow ||
      (worker.logged_step_s != 0 && worker.step_s < kSlowFactor * worker.logged_step_s &&
       worker.logged_step_s < kSlowFactor * worker.step_s)) {
    return "";
  }
  worker.logged_step_s = worker.step_s;
  worker.logged_at = now;
  return " is slow: " + times_text;
}

double Stragglers::MedianOfOthers(uint32_t rank) const {
  std::vector<double> step_times;
  for (uint32_t other_rank = 0; other_rank < workers_.size(); ++other_rank) {
    if (other_rank != rank && workers_[other_rank].step_s > 0)
      step_times.push_back(workers_[other_rank].step_s);
  }
  if (step_times.empty()) return 0;
  std::sort(step_times.begin(), step_times.end());
  const size_t half = step_times.size() / 2;
  return step_times.size() % 2 == 1 ? step_times[half]
                                    : (step_times[half - 1] + step_times[half]) / 2;
}

}  // namespace tern::protocol
