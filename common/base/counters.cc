#include "common/base/counters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

#include "common/base/logging.h"

namespace tern {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string FormatNumber(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "+Inf" : "-Inf";
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, v).ptr);
}

std::string EscapeText(std::string_view text, bool escape_quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\' || (escape_quotes && c == '"')) {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out;
}

// Returns {a="1",b="2"}; an empty text if there are no labels. `bucket_bound`, unless empty,
// becomes the label "le": the upper bound of a histogram bucket.
std::string LabelText(const Labels& labels, const std::string& bucket_bound = "") {
  std::string out;
  const auto add = [&out](const std::string& key, const std::string& value) {
    out += (out.empty() ? "{" : ",") + key + "=\"" + EscapeText(value, true) + "\"";
  };
  for (const auto& [key, value] : labels) add(key, value);
  if (!bucket_bound.empty()) add("le", bucket_bound);
  return out.empty() ? out : out + "}";
}

void AddLine(std::string* out, const std::string& name, const std::string& labels,
             const std::string& value) {
  *out += name + labels + " " + value + "\n";
}

void AddHistogram(std::string* out, const std::string& name, const Labels& labels,
                  const Histogram& histogram) {
  uint64_t cumulative = 0;
  for (size_t i = 0; i <= histogram.bounds().size(); ++i) {
    cumulative += histogram.bucket(i);
    const double bound = i < histogram.bounds().size() ? histogram.bounds()[i] : kInfinity;
    AddLine(out, name + "_bucket", LabelText(labels, FormatNumber(bound)),
            std::to_string(cumulative));
  }
  AddLine(out, name + "_sum", LabelText(labels), FormatNumber(histogram.sum()));
  AddLine(out, name + "_count", LabelText(labels), std::to_string(cumulative));
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), buckets_(bounds_.size() + 1) {
  CHECK(std::is_sorted(bounds_.begin(), bounds_.end())) << "histogram bounds must rise";
}

void Histogram::Observe(double v) {
  const auto bucket_index = std::lower_bound(bounds_.begin(), bounds_.end(), v) - bounds_.begin();
  buckets_[bucket_index].Add();
  sum_.Add(v);
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (const Counter& bucket : buckets_) count += bucket.value();
  return count;
}

std::vector<double> Histogram::ExponentialBounds(double first, double factor, int n) {
  std::vector<double> bounds(n);
  for (double& bound : bounds) {
    bound = first;
    first *= factor;
  }
  return bounds;
}

// One metric of a family: its labels and its value.
struct Registry::Series {
  Labels labels;
  std::variant<std::unique_ptr<Counter>, std::unique_ptr<TimeCounter>, std::unique_ptr<Gauge>,
               std::unique_ptr<Histogram>>
      value;
};

// All metrics with the same name.
struct Registry::Family {
  std::string type;
  std::string help;
  std::vector<double> bounds;  // the upper bounds of a histogram's buckets; else empty
  bool hides_zeros = false;    // whether PrometheusText() leaves out counters that are 0
  std::vector<Series> series;
};

Registry::Registry() = default;
Registry::~Registry() = default;

template <typename T>
T& Registry::GetMetric(const char* type, const std::string& name, const std::string& help,
                       Labels labels, const std::vector<double>* bounds) {
  const MutexLock lock(mutex_);
  std::unique_ptr<Family>& family = families_[name];
  if (!family) {
    family = std::make_unique<Family>(
        Family{type, help, bounds ? *bounds : std::vector<double>(), false, {}});
  }
  for (Series& series : family->series) {
    CHECK(std::holds_alternative<std::unique_ptr<T>>(series.value))
        << name << " is registered with two types, one of them " << family->type;
    if (series.labels == labels) return *std::get<std::unique_ptr<T>>(series.value);
  }
  std::unique_ptr<T> metric;
  if constexpr (std::is_same_v<T, Histogram>) {
    metric = std::make_unique<T>(family->bounds);
  } else {
    metric = std::make_unique<T>();
  }
  T& value = *metric;
  family->series.push_back(Series{std::move(labels), std::move(metric)});
  return value;
}

Counter& Registry::GetCounter(const std::string& name, const std::string& help, Labels labels) {
  return GetMetric<Counter>("counter", name, help, std::move(labels), nullptr);
}

TimeCounter& Registry::GetTimeCounter(const std::string& name, const std::string& help,
                                      Labels labels) {
  return GetMetric<TimeCounter>("counter", name, help, std::move(labels), nullptr);
}

Gauge& Registry::GetGauge(const std::string& name, const std::string& help, Labels labels) {
  return GetMetric<Gauge>("gauge", name, help, std::move(labels), nullptr);
}

Histogram& Registry::GetHistogram(const std::string& name, const std::string& help,
                                  const std::vector<double>& bounds, Labels labels) {
  return GetMetric<Histogram>("histogram", name, help, std::move(labels), &bounds);
}

void Registry::HideZeros(const std::string& name) {
  const MutexLock lock(mutex_);
  families_.at(name)->hides_zeros = true;
}

std::vector<MetricSample> Registry::Snapshot() const {
  const MutexLock lock(mutex_);
  std::vector<MetricSample> samples;
  for (const auto& [name, family] : families_) {
    for (const Series& series : family->series) {
      const auto add = [&, &name = name](const char* suffix, double value) {
        samples.push_back(MetricSample{name + suffix, series.labels, value});
      };
      if (const auto* c = std::get_if<std::unique_ptr<Counter>>(&series.value)) {
        add("", static_cast<double>((*c)->value()));
      } else if (const auto* t = std::get_if<std::unique_ptr<TimeCounter>>(&series.value)) {
        add("", Seconds((*t)->value()));
      } else if (const auto* g = std::get_if<std::unique_ptr<Gauge>>(&series.value)) {
        add("", (*g)->value());
      } else if (const auto* h = std::get_if<std::unique_ptr<Histogram>>(&series.value)) {
        add("_sum", (*h)->sum());
        add("_count", static_cast<double>((*h)->count()));
      }
    }
  }
  return samples;
}

std::string Registry::PrometheusText() const {
  const MutexLock lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    out += "# HELP " + name + " " + EscapeText(family->help, false) + "\n";
    out += "# TYPE " + name + " " + family->type + "\n";
    for (const Series& series : family->series) {
      const std::string labels = LabelText(series.labels);
      if (const auto* c = std::get_if<std::unique_ptr<Counter>>(&series.value)) {
        const uint64_t value = (*c)->value();
        if (value != 0 || !family->hides_zeros) AddLine(&out, name, labels, std::to_string(value));
      } else if (const auto* t = std::get_if<std::unique_ptr<TimeCounter>>(&series.value)) {
        AddLine(&out, name, labels, FormatNumber(Seconds((*t)->value())));
      } else if (const auto* g = std::get_if<std::unique_ptr<Gauge>>(&series.value)) {
        AddLine(&out, name, labels, FormatNumber((*g)->value()));
      } else if (const auto* h = std::get_if<std::unique_ptr<Histogram>>(&series.value)) {
        AddHistogram(&out, name, series.labels, **h);
      }
    }
  }
  return out;
}

}  // namespace tern
