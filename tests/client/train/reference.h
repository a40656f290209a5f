// What the tests of algorithms with rounds share: their job, and the parts of a reference in double
// precision, with which they compare the weights of the workers of a cluster (cluster.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/client/train/cluster.h"
#include "tests/client/train/train_job.h"

namespace tern::client {

constexpr uint32_t kWorkers = 3;
constexpr uint64_t kSteps = 33;
constexpr double kRate = 0.05, kMomentum = 0.9;
constexpr double kTolerance = 1e-5;

using Vector = std::vector<double>;

inline std::unique_ptr<setup::Setup> MakeJob(const std::string& algorithm,
                                             std::vector<std::string> extra_overrides,
                                             uint32_t workers = kWorkers) {
  std::vector<std::string> overrides = {
      "workers.count=" + std::to_string(workers),
      "train.batch_total=" + std::to_string(2 * workers),
      "train.algorithm=" + algorithm,
      "exchange.codec=fp32",
      "exchange.chunk_kib=1",
      "exchange.bucket_kib=2",
      "train.schedule.learning_rate=0.05",
      "faults.compare_every_steps=10",
      "output_dir=" + testing::TempDir() + "tern_traces_" + algorithm};
  overrides.insert(overrides.end(), extra_overrides.begin(), extra_overrides.end());
  return SmallJob(overrides);
}

inline Vector MeanOf(const std::vector<Vector>& vectors) {
  Vector mean(vectors[0].size());
  for (const Vector& each : vectors)
    for (size_t k = 0; k < mean.size(); ++k)
      mean[k] += each[k] / static_cast<double>(vectors.size());
  return mean;
}

// Makes one step of SGD with momentum m: v = m v + g; w -= rate v.
inline void MomentumStep(const Vector& g, double rate, double m, Vector* v, Vector* w) {
  v->resize(w->size());
  for (size_t k = 0; k < w->size(); ++k) {
    (*v)[k] = m * (*v)[k] + g[k];
    (*w)[k] -= rate * (*v)[k];
  }
}

// The state of adam, with t by element, because each may begin anew at another time.
struct AdamReference {
  Vector m, v, t;

  // Makes one step with PyTorch's default betas and epsilon.
  void Step(const Vector& g, double rate, Vector* w) {
    Resize(w->size());
    for (size_t k = 0; k < w->size(); ++k) {
      t[k] += 1;
      m[k] = 0.9 * m[k] + 0.1 * g[k];
      v[k] = 0.999 * v[k] + 0.001 * g[k] * g[k];
      const double unbiased_m = m[k] / (1 - std::pow(0.9, t[k]));
      const double unbiased_v = v[k] / (1 - std::pow(0.999, t[k]));
      (*w)[k] -= rate * unbiased_m / (std::sqrt(unbiased_v) + 1e-8);
    }
  }
  void Reset(size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) m[k] = v[k] = t[k] = 0;
  }

 private:
  void Resize(size_t n) {
    for (Vector* values : {&m, &v, &t}) values->resize(n);
  }
};

// The step of the common weights W at a synchronization, with the mean change D (client/train/
// outer_step.h). The gradient of the outer optimizer is -D, and `v` its momentum. With the defaults
// it is W = W + D.
struct OuterReference {
  bool is_nesterov = false;
  double rate = 1, m = 0;
  Vector v = {};

  void AddChange(const Vector& mean_change, Vector* w) { AddChange(mean_change, 0, w->size(), w); }
  // The same for the elements from `begin` to `end`.
  void AddChange(const Vector& mean_change, size_t begin, size_t end, Vector* w) {
    v.resize(w->size());
    for (size_t k = begin; k < end; ++k) {
      const double g = -mean_change[k];
      v[k] = m * v[k] + g;
      (*w)[k] -= rate * (is_nesterov ? g + m * v[k] : v[k]);
    }
  }
};

// An outer optimizer of `algorithm`: the job's settings, and the reference.
struct OuterCase {
  std::string name;
  std::vector<std::string> settings;
  OuterReference reference;
};
inline std::vector<OuterCase> OuterCases(const std::string& algorithm) {
  const std::string key = "train." + algorithm + ".outer.";
  return {{"sgd", {key + "name=sgd", key + "learning_rate=0.6"}, {.rate = 0.6}},
          {"momentum",
           {key + "name=momentum", key + "learning_rate=0.3", key + "momentum=0.8"},
           {.rate = 0.3, .m = 0.8}},
          {"nesterov", {key + "name=nesterov"}, {.is_nesterov = true, .rate = 0.7, .m = 0.9}}};
}

}  // namespace tern::client
