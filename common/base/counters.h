// The counters of a process, and their Prometheus text. A Registry is an object, so that two
// daemons in one test process count separately.
//
// Threads: registering locks; counting and reading are lock-free and may happen on any thread.
// References stay valid as long as the registry. Names and labels come from the program, never from
// a peer, so their number is not bounded here.
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

// Only ever grows.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Time spent: only grows, too; shown in seconds.
class TimeCounter {
 public:
  void Add(Time t) { nanoseconds_.Add(static_cast<uint64_t>(t.count())); }
  Time value() const { return Time(static_cast<int64_t>(nanoseconds_.value())); }

 private:
  Counter nanoseconds_;
};

// Adds the time from its construction to the end of the scope.
class TimeScope {
 public:
  explicit TimeScope(TimeCounter& counter) : counter_(counter), begin_(Now()) {}
  ~TimeScope() { counter_.Add(Now() - begin_); }
  // Excludes `out` from the time counted.
  void Leave(Time out) { begin_ += out; }
  TimeScope(const TimeScope&) = delete;
  TimeScope& operator=(const TimeScope&) = delete;

 private:
  TimeCounter& counter_;
  Time begin_;
};

// Goes up and down.
class Gauge {
 public:
  void Set(double v) { value_.store(v, std::memory_order_relaxed); }
  void Add(double v) { value_.fetch_add(v, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Counts of observations by upper bound, as in Prometheus.
class Histogram {
 public:
  // `bounds`: upper bounds, inclusive, rising. A bucket for everything above them is added.
  explicit Histogram(std::vector<double> bounds);
  void Observe(double v);

  uint64_t count() const;
  double sum() const { return sum_.value(); }
  // The smallest bound that at least a share `q` of the observations do not exceed; infinity if
  // that is above the last bound, 0 if there were no observations.
  double Quantile(double q) const;

  const std::vector<double>& bounds() const { return bounds_; }
  // Observations in bucket i alone, i <= bounds().size().
  uint64_t bucket(size_t i) const { return buckets_[i].value(); }

  // `n` bounds: first, first * factor, first * factor^2 ...
  static std::vector<double> Exponential(double first, double factor, int n);

 private:
  const std::vector<double> bounds_;
  std::vector<Counter> buckets_;
  Gauge sum_;
};

// One line of the page: `labels` in the order given.
struct Sample {
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

  // Returns the counter with this name and these labels, and creates it on the first call. `name`
  // is Prometheus style ("tern_rounds_total", unit at the end); `help` is one line. Using one name
  // for two kinds is a bug.
  Counter& GetCounter(const std::string& name, const std::string& help, Labels labels = {});
  TimeCounter& GetTimeCounter(const std::string& name, const std::string& help, Labels labels = {});
  Gauge& GetGauge(const std::string& name, const std::string& help, Labels labels = {});
  // The `bounds` of a name's first call are used.
  Histogram& GetHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& bounds, Labels labels = {});

  // All values, families by name, rows in order of registration; a histogram gives NAME_sum and
  // NAME_count.
  std::vector<Sample> Snapshot() const;
  // The page in Prometheus text format 0.0.4.
  std::string PrometheusText() const;

 private:
  struct Row;
  struct Family;
  template <typename T>
  T& Get(const char* type, const std::string& name, const std::string& help, Labels labels,
         const std::vector<double>* bounds);

  mutable Mutex mutex_;
  // The values behind it are atomics.
  std::map<std::string, std::unique_ptr<Family>> families_ TERN_GUARDED_BY(mutex_);
};

}  // namespace tern
