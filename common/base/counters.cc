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

std::string Number(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "+Inf" : "-Inf";
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, v).ptr);
}

std::string Escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\' || (quotes && c == '"')) {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out;
}

// {a="1",b="2"}, nothing for no labels; `le` is added where it is not empty.
std::string LabelText(const Labels& labels, const std::string& le = "") {
  std::string out;
  const auto add = [&out](const std::string& key, const std::string& value) {
    out += (out.empty() ? "{" : ",") + key + "=\"" + Escaped(value, true) + "\"";
  };
  for (const auto& [key, value] : labels) add(key, value);
  if (!le.empty()) add("le", le);
  return out.empty() ? out : out + "}";
}

void AddLine(std::string* out, const std::string& name, const std::string& labels,
             const std::string& value) {
  *out += name + labels + " " + value + "\n";
}

void AddHistogram(std::string* out, const std::string& name, const Labels& labels,
                  const Histogram& h) {
  uint64_t below = 0;
  for (size_t i = 0; i <= h.bounds().size(); ++i) {
    below += h.bucket(i);
    const double bound = i < h.bounds().size() ? h.bounds()[i] : kInfinity;
    AddLine(out, name + "_bucket", LabelText(labels, Number(bound)), std::to_string(below));
  }
  AddLine(out, name + "_sum", LabelText(labels), Number(h.sum()));
  AddLine(out, name + "_count", LabelText(labels), std::to_string(below));
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), buckets_(bounds_.size() + 1) {
  CHECK(std::is_sorted(bounds_.begin(), bounds_.end())) << "histogram bounds must rise";
}

void Histogram::Observe(double v) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), v) - bounds_.begin();
  buckets_[bucket].Add();
  sum_.Add(v);
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (const Counter& bucket : buckets_) count += bucket.value();
  return count;
}

double Histogram::Quantile(double q) const {
  const uint64_t all = count();
  if (all == 0) return 0;
  uint64_t below = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    below += bucket(i);
    if (static_cast<double>(below) >= q * static_cast<double>(all)) return bounds_[i];
  }
  return kInfinity;
}

std::vector<double> Histogram::Exponential(double first, double factor, int n) {
  std::vector<double> bounds(n);
  for (double& bound : bounds) {
    bound = first;
    first *= factor;
  }
  return bounds;
}

struct Registry::Row {
  Labels labels;
  std::variant<std::unique_ptr<Counter>, std::unique_ptr<TimeCounter>, std::unique_ptr<Gauge>,
               std::unique_ptr<Histogram>>
      value;
};

struct Registry::Family {
  std::string type;
  std::string help;
  std::vector<double> bounds;
  std::vector<Row> rows;
};

Registry::Registry() = default;
Registry::~Registry() = default;

template <typename T>
T& Registry::Get(const char* type, const std::string& name, const std::string& help, Labels labels,
                 const std::vector<double>* bounds) {
  const MutexLock lock(mutex_);
  std::unique_ptr<Family>& family = families_[name];
  if (!family) {
    family =
        std::make_unique<Family>(Family{type, help, bounds ? *bounds : std::vector<double>(), {}});
  }
  for (Row& row : family->rows) {
    CHECK(std::holds_alternative<std::unique_ptr<T>>(row.value))
        << name << " is counted in two kinds, one of them " << family->type;
    if (row.labels == labels) return *std::get<std::unique_ptr<T>>(row.value);
  }
  std::unique_ptr<T> made;
  if constexpr (std::is_same_v<T, Histogram>) {
    made = std::make_unique<T>(family->bounds);
  } else {
    made = std::make_unique<T>();
  }
  T& value = *made;
  family->rows.push_back(Row{std::move(labels), std::move(made)});
  return value;
}

Counter& Registry::GetCounter(const std::string& name, const std::string& help, Labels labels) {
  return Get<Counter>("counter", name, help, std::move(labels), nullptr);
}

TimeCounter& Registry::GetTimeCounter(const std::string& name, const std::string& help,
                                      Labels labels) {
  return Get<TimeCounter>("counter", name, help, std::move(labels), nullptr);
}

Gauge& Registry::GetGauge(const std::string& name, const std::string& help, Labels labels) {
  return Get<Gauge>("gauge", name, help, std::move(labels), nullptr);
}

Histogram& Registry::GetHistogram(const std::string& name, const std::string& help,
                                  const std::vector<double>& bounds, Labels labels) {
  return Get<Histogram>("histogram", name, help, std::move(labels), &bounds);
}

std::vector<Sample> Registry::Snapshot() const {
  const MutexLock lock(mutex_);
  std::vector<Sample> samples;
  for (const auto& [name, family] : families_) {
    for (const Row& row : family->rows) {
      const auto add = [&, &name = name](const char* suffix, double value) {
        samples.push_back(Sample{name + suffix, row.labels, value});
      };
      if (const auto* c = std::get_if<std::unique_ptr<Counter>>(&row.value)) {
        add("", static_cast<double>((*c)->value()));
      } else if (const auto* t = std::get_if<std::unique_ptr<TimeCounter>>(&row.value)) {
        add("", Seconds((*t)->value()));
      } else if (const auto* g = std::get_if<std::unique_ptr<Gauge>>(&row.value)) {
        add("", (*g)->value());
      } else if (const auto* h = std::get_if<std::unique_ptr<Histogram>>(&row.value)) {
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
    out += "# HELP " + name + " " + Escaped(family->help, false) + "\n";
    out += "# TYPE " + name + " " + family->type + "\n";
    for (const Row& row : family->rows) {
      const std::string labels = LabelText(row.labels);
      if (const auto* c = std::get_if<std::unique_ptr<Counter>>(&row.value)) {
        AddLine(&out, name, labels, std::to_string((*c)->value()));
      } else if (const auto* t = std::get_if<std::unique_ptr<TimeCounter>>(&row.value)) {
        AddLine(&out, name, labels, Number(Seconds((*t)->value())));
      } else if (const auto* g = std::get_if<std::unique_ptr<Gauge>>(&row.value)) {
        AddLine(&out, name, labels, Number((*g)->value()));
      } else if (const auto* h = std::get_if<std::unique_ptr<Histogram>>(&row.value)) {
        AddHistogram(&out, name, row.labels, **h);
      }
    }
  }
  return out;
}

}  // namespace tern
