// Tests of pqasgd with fragments. A reference makes the local steps and the exchanges of fragments
// in double precision, as algorithm 2 of Streaming DiLoCo says (docs/ALGORITHMS.md, section 10).
// The weights at which each worker computes gradients, the common weights after each round, and
// their moving average must be close to those of the reference.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/client/train/reference.h"

namespace tern::client {
namespace {

// The settings of a job with fragments; `alpha` is the mixing factor, 0 without overlap.
struct Fragments {
  uint64_t p = 8, count = 4;
  bool overlaps = true;
  double alpha = 0.5;
  bool resets_state = false;  // of the local steps' optimizer
  bool is_adam = false;       // rather than momentum
  OuterReference outer = {};

  uint64_t interval() const { return p / count; }
};

// The job's settings for these fragments, and others.
std::vector<std::string> SettingsOf(const Fragments& fragments,
                                    std::vector<std::string> settings = {}) {
  settings.insert(settings.end(), {"train.pqasgd.p=" + std::to_string(fragments.p),
                                   "train.pqasgd.fragments=" + std::to_string(fragments.count)});
  return settings;
}

class Reference {
 public:
  Reference(const setup::Setup& job, const Fragments& fragments)
      : fragments_(fragments),
        outer_(fragments.outer),
        w_(InitialWeights(job)),
        average_(w_),
        x_(kWorkers, w_),
        v_(kWorkers, Vector(w_.size())),
        adam_(kWorkers),
        num_exchanges_(fragments.count) {}

  void LocalStep(uint64_t s) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      const Vector g = GradientAt(i, s, x_[i]);
      if (fragments_.is_adam)
        adam_[i].Step(g, kRate, &x_[i]);
      else
        MomentumStep(g, kRate, kMomentum, &v_[i], &x_[i]);
    }
  }
  // What the workers push of a fragment: in the mean, the change of its weights.
  Vector MeanChange() const {
    Vector change = MeanOf(x_);
    for (size_t k = 0; k < w_.size(); ++k) change[k] -= w_[k];
    return change;
  }
  // W takes the mean change of a fragment.
  void Apply(uint64_t f, const Vector& mean_change) {
    outer_.AddChange(mean_change, Begin(f), Begin(f + 1), &w_);
    const auto t = static_cast<double>(num_exchanges_[f]++);
    const double decay = std::min(0.5, (1 + t) / (10 + t));
    for (size_t k = Begin(f); k < Begin(f + 1); ++k)
      average_[k] = decay * average_[k] + (1 - decay) * w_[k];
  }
  // The workers take W in a fragment.
  void Mix(uint64_t f) {
    for (uint32_t i = 0; i < kWorkers; ++i) {
      for (size_t k = Begin(f); k < Begin(f + 1); ++k) {
        x_[i][k] = fragments_.alpha * x_[i][k] + (1 - fragments_.alpha) * w_[k];
        if (fragments_.resets_state) v_[i][k] = 0;
      }
      if (fragments_.resets_state && fragments_.is_adam) adam_[i].Reset(Begin(f), Begin(f + 1));
    }
  }

  const Vector& w() const { return w_; }
  const Vector& average() const { return average_; }
  const Vector& x(uint32_t rank) const { return x_[rank]; }

 private:
  size_t Begin(uint64_t f) const { return f * w_.size() / fragments_.count; }

  const Fragments fragments_;
  OuterReference outer_;
  Vector w_, average_;
  std::vector<Vector> x_, v_;
  std::vector<AdamReference> adam_;
  std::vector<uint64_t> num_exchanges_;  // by fragment
};

void ExpectWeights(const std::vector<Trace>& traces, uint64_t round, const Vector& w) {
  for (const Trace& trace : traces) {
    ASSERT_TRUE(trace.weights_after_round.contains(round)) << "round " << round;
    ASSERT_LT(RelativeDistance(trace.weights_after_round.at(round), w), kTolerance)
        << "round " << round;
    EXPECT_EQ(trace.weights_after_round.at(round), traces[0].weights_after_round.at(round))
        << "replicas differ";
  }
}

void CheckFragments(const Fragments& fragments, std::vector<std::string> settings) {
  settings.push_back("evaluation.ema_decay=0.5");
  const auto job = MakeJob("pqasgd", SettingsOf(fragments, settings));
  const auto traces = RunCluster(*job, {kSteps});
  const uint64_t h = fragments.interval(), num_intervals = kSteps / h;
  const auto fragment_of = [&](uint64_t j) { return (j - 1) % fragments.count; };
  Reference reference(*job, fragments);
  Vector change;  // of the last interval's fragment, on its way
  const auto take = [&](uint64_t j) {
    if (j == 0) return;
    reference.Apply(fragment_of(j), change);
    ExpectWeights(traces, 2 * j, reference.w());
    reference.Mix(fragment_of(j));
  };
  for (uint64_t s = 1; s <= kSteps; ++s) {
    for (uint32_t i = 0; i < kWorkers; ++i)
      ASSERT_LT(RelativeDistance(traces[i].points[s - 1], reference.x(i)), kTolerance)
          << "step " << s;
    reference.LocalStep(s);
    if (s % h != 0) continue;
    if (fragments.overlaps) take(s / h - 1);
    change = reference.MeanChange();
    if (!fragments.overlaps) take(s / h);
  }
  // All fragments have changes for the last round, but not the one that was pushed just now.
  const bool ends_interval = kSteps % h == 0;
  if (fragments.overlaps) take(num_intervals);
  change = reference.MeanChange();
  for (uint64_t f = 0; f < fragments.count; ++f)
    if (!ends_interval || f != fragment_of(num_intervals)) reference.Apply(f, change);
  ExpectWeights(traces, 2 * num_intervals + 1, reference.w());
  for (const Trace& trace : traces) {
    EXPECT_EQ(trace.weights_after_round.size(), num_intervals + 1);
    EXPECT_EQ(trace.final_weights, trace.weights_after_round.at(2 * num_intervals + 1));
    EXPECT_LT(RelativeDistance(trace.average_weights, reference.average()), kTolerance);
  }
}

TEST(Fragments, AreSynchronizedInTurnWhileWorkersCompute) {
  CheckFragments({}, {});
  CheckFragments({.alpha = 0}, {"train.pqasgd.mixing=0"});
  CheckFragments({.alpha = 0.8}, {"train.pqasgd.mixing=0.8"});
  CheckFragments({.alpha = 1}, {"train.pqasgd.mixing=1"});
}

TEST(Fragments, AreSynchronizedInTurnAtOnceWithoutOverlap) {
  CheckFragments({.overlaps = false, .alpha = 0}, {"train.pqasgd.overlap=false"});
}

// Intervals of one step, intervals whose length divides the job's, and only some of the fragments
// exchanged before the job ends.
TEST(Fragments, HaveAllThatWorkersTrainedInTheLastRound) {
  for (const auto& [p, count] : {std::pair{4, 4}, {6, 2}, {33, 3}, {48, 6}, {80, 2}}) {
    SCOPED_TRACE(testing::Message() << "p " << p << ", fragments " << count);
    Fragments fragments;
    fragments.p = static_cast<uint64_t>(p);
    fragments.count = static_cast<uint64_t>(count);
    CheckFragments(fragments, {});
    fragments.overlaps = false;
    fragments.alpha = 0;
    CheckFragments(fragments, {"train.pqasgd.overlap=false"});
  }
}

TEST(Fragments, HaveAnOuterOptimizer) {
  for (const OuterCase& c : OuterCases("pqasgd")) {
    SCOPED_TRACE(c.name);
    CheckFragments({.outer = c.reference}, c.settings);
    auto settings = c.settings;
    settings.push_back("train.pqasgd.overlap=false");
    CheckFragments({.overlaps = false, .alpha = 0, .outer = c.reference}, settings);
  }
}

TEST(Fragments, LoseTheirMomentumAlone) {
  CheckFragments({.resets_state = true}, {"train.pqasgd.at_sync=reset"});
  const std::vector<std::string> adam = {"train.optimizer.name=adam"};
  CheckFragments({.is_adam = true}, adam);
  CheckFragments({.resets_state = true, .is_adam = true}, {adam[0], "train.pqasgd.at_sync=reset"});
}

TEST(Fragments, OfWhichThereIsOneAreTheWholeModel) {
  const std::vector<std::string> settings = {"train.pqasgd.p=4", "exchange.codec=ternary"};
  auto one = settings;
  one.push_back("train.pqasgd.fragments=1");
  const auto traces = RunCluster(*MakeJob("pqasgd", one), {kSteps}),
             expected = RunCluster(*MakeJob("pqasgd", settings), {kSteps});
  EXPECT_EQ(traces[0].weights_after_round, expected[0].weights_after_round);
  EXPECT_EQ(traces[0].points, expected[0].points);
}

// A comparison of the replicas waits for the open round, but leaves the workers' own weights.
TEST(Fragments, DoNotDependOnWhenReplicasAreCompared) {
  const auto traces_with = [](const std::string& steps) {
    return RunCluster(*MakeJob("pqasgd", SettingsOf({}, {"exchange.codec=ternary",
                                                         "train.pqasgd.outer.learning_rate=0.5",
                                                         "faults.compare_every_steps=" + steps})),
                      {kSteps});
  };
  const auto often = traces_with("1"), never = traces_with("100");
  for (uint32_t rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(often[rank].points, never[rank].points);
    EXPECT_EQ(often[rank].weights_after_round, never[rank].weights_after_round);
  }
}

TEST(Fragments, OfRandomCodesAreTheSameOnAllWorkers) {
  for (const std::string codec : {"ternary", "qsgd", "qsgd_shared"}) {
    for (const std::string rotate : {"0", "64"}) {
      SCOPED_TRACE(codec + ", rotate " + rotate);
      std::vector<std::string> settings = {"exchange.codec=" + codec, "exchange.rotate=" + rotate};
      if (codec == "qsgd") settings.push_back("exchange.qsgd.bucket_elements=64");
      const auto traces = RunCluster(*MakeJob("pqasgd", SettingsOf({}, settings)), {kSteps});
      ASSERT_EQ(traces[0].weights_after_round.size(), kSteps / 2 + 1);
      for (const Trace& trace : traces)
        EXPECT_EQ(trace.weights_after_round, traces[0].weights_after_round);
    }
  }
}

}  // namespace
}  // namespace tern::client
