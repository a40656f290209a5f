// The metrics of a process, and their Prometheus text. A Registry is an object, not a global, so
// that two servers in one test process count separately.
//
// Any thread may register, count and read; counting and reading a value are lock-free. References
// to metrics stay valid as long as the registry. Only the program chooses names and labels, never a
// peer, so the registry does not limit how many there are.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tern {

using Labels = std::vector<std::pair<std::string, std::string>>;

// A counter that only grows.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// A counter of time spent, shown in seconds.
class TimeCounter {
 public:
  void Add(Time t) { nanoseconds_.Add(static_cast<uint64_t>(t.count())); }
  Time value() const { return Time(static_cast<int64_t>(nanoseconds_.value())); }

 private:
  Counter nanoseconds_;
};

// A scope guard: adds the time from its construction to its destruction to a TimeCounter.
class TimeScope {
 public:
  explicit TimeScope(TimeCounter& counter) : counter_(counter), begin_(Now()) {}
  ~TimeScope() { counter_.Add(Now() - begin_); }
  // Excludes `t` from the time counted.
  void Exclude(Time t) { begin_ += t; }
  TimeScope(const TimeScope&) = delete;
  TimeScope& operator=(const TimeScope&) = delete;

 private:
  TimeCounter& counter_;
  Time begin_;
};

// A value that goes up and down.
class Gauge {
 public:
  void Set(double v) { value_.store(v, std::memory_order_relaxed); }
  void Add(double v) { value_.fetch_add(v, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Counts observations in buckets, each with an upper bound, like a histogram of Prometheus.
class Histogram {
 public:
  // `bounds`: inclusive upper bounds in ascending order. One more bucket counts everything above
  // them.
  explicit Histogram(std::vector<double> bounds);
  void Observe(double v);

  uint64_t count() const;
  double sum() const { return sum_.value(); }

  const std::vector<double>& bounds() const { return bounds_; }
  // The number of observations in bucket i alone (not cumulative). REQUIRES i <= bounds().size().
  uint64_t bucket(size_t i) const { return buckets_[i].value(); }

  // Returns `n` bounds: first, first * factor, first * factor^2 ...
  static std::vector<double> ExponentialBounds(double first, double factor, int n);

 private:
  const std::vector<double> bounds_;
  std::vector<Counter> buckets_;
  Gauge sum_;
};

// The value of one metric at one time. `labels` are in the order in which they were registered.
struct MetricSample {
  std::string name;
  Labels labels;
  double value = 0;
};

class Registry {
 public:
  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Each returns the metric with this name and these labels, and creates it on the first call.
  // `name` is Prometheus style ("tern_rounds_total", unit at the end); `help` is one line. It
  // is a bug to register one name as metrics of two types.
  Counter& GetCounter(const std::string& name, const std::string& help, Labels labels = {});
  TimeCounter& GetTimeCounter(const std::string& name, const std::string& help, Labels labels = {});
  Gauge& GetGauge(const std::string& name, const std::string& help, Labels labels = {});
  // All histograms with one name (and different labels) get the `bounds` of the first call.
  Histogram& GetHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& bounds, Labels labels = {});

  // From now on PrometheusText() leaves out the counters with this name that are 0: for a family of
  // many counters, most of which never count. REQUIRES that a counter with this name is registered.
  void HideZeros(const std::string& name);

  // Returns all values, sorted by name, then in the order of registration. A histogram has two
  // entries: NAME_sum and NAME_count.
  std::vector<MetricSample> Snapshot() const;
  // Returns all values in Prometheus text format 0.0.4.
  std::string PrometheusText() const;

 private:
  struct Series;
  struct Family;
  template <typename T>
  T& GetMetric(const char* type, const std::string& name, const std::string& help, Labels labels,
               const std::vector<double>* bounds);

  mutable Mutex mutex_;
  // By name of the metrics. The mutex guards the map and the families, not the metrics' values,
  // which are atomic.
  std::map<std::string, std::unique_ptr<Family>> families_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern
