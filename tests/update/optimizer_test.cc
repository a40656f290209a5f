#include "common/update/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tern::update {
namespace {

pb::Optimizer Def(const std::string& name, double momentum = 0.9) {
  pb::Optimizer def;
  def.set_name(name);
  def.set_momentum(momentum);
  return def;
}

std::vector<float> Random(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

// w and v after `steps` of momentum SGD with weight decay, in double.
std::vector<double> Reference(const std::vector<float>& w0, double rate, double m, double decay,
                              int steps) {
  std::vector<double> w(w0.begin(), w0.end());
  std::vector<double> v(w.size());
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> g = Random(w.size(), 100 + step);
    for (size_t i = 0; i < w.size(); ++i) {
      v[i] = m * v[i] + (g[i] + decay * w[i]);
      w[i] -= rate * v[i];
    }
  }
  return w;
}

std::vector<float> Train(const pb::Optimizer& def, std::vector<float> w, float rate, float decay,
                         int steps, size_t piece) {
  const auto optimizer = std::move(*MakeOptimizer(def, w.size()));
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> g = Random(w.size(), 100 + step);
    for (size_t first = 0; first < w.size(); first += piece) {
      const size_t n = std::min(piece, w.size() - first);
      optimizer->Update(w.data() + first, g.data() + first, first, n, rate, decay);
    }
  }
  return w;
}

TEST(Optimizer, SgdFollowsTheFormula) {
  const std::vector<float> start = Random(77, 1);
  const std::vector<float> w = Train(Def("sgd"), start, 0.1f, 0.01f, 20, 77);
  const std::vector<double> expected = Reference(start, 0.1f, 0, 0.01f, 20);
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], expected[i], 1e-5);
}

TEST(Optimizer, MomentumFollowsTheFormula) {
  const std::vector<float> start = Random(77, 1);
  const std::vector<float> w = Train(Def("momentum"), start, 0.1f, 0.01f, 20, 77);
  const std::vector<double> expected = Reference(start, 0.1f, 0.9f, 0.01f, 20);
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], expected[i], 1e-5);
}

TEST(Optimizer, PiecesGiveTheBitsOfTheWhole) {
  const std::vector<float> start = Random(77, 1);
  for (const char* name : {"sgd", "momentum"}) {
    const std::vector<float> whole = Train(Def(name), start, 0.1f, 0.01f, 5, 77);
    for (size_t piece : {1, 7, 16, 40}) {
      EXPECT_EQ(Train(Def(name), start, 0.1f, 0.01f, 5, piece), whole) << name << " by " << piece;
    }
  }
}

TEST(Optimizer, NoMomentumIsSgd) {
  const std::vector<float> start = Random(77, 1);
  EXPECT_EQ(Train(Def("momentum", 0), start, 0.1f, 0, 5, 77),
            Train(Def("sgd"), start, 0.1f, 0, 5, 77));
}

TEST(Optimizer, SlotsCarryTheWholeState) {
  const auto first = std::move(*MakeOptimizer(Def("momentum"), 9));
  auto slots = first->Slots();
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0].name, "momentum");
  ASSERT_EQ(slots[0].values.size(), 9u);
  for (float v : slots[0].values) EXPECT_EQ(v, 0);

  std::vector<float> w = Random(9, 1);
  const std::vector<float> g = Random(9, 2);
  first->Update(w.data(), g.data(), 0, 9, 0.1f, 0);
  EXPECT_EQ(std::vector<float>(slots[0].values.begin(), slots[0].values.end()), g);

  // A replica that takes over weights and slots goes on alike.
  const auto second = std::move(*MakeOptimizer(Def("momentum"), 9));
  std::copy(slots[0].values.begin(), slots[0].values.end(), second->Slots()[0].values.begin());
  std::vector<float> w2 = w;
  first->Update(w.data(), g.data(), 0, 9, 0.1f, 0);
  second->Update(w2.data(), g.data(), 0, 9, 0.1f, 0);
  EXPECT_EQ(w, w2);

  EXPECT_TRUE((*MakeOptimizer(Def("sgd"), 9))->Slots().empty());
}

TEST(Optimizer, UnknownNamesGetTheKnownOnes) {
  const auto made = MakeOptimizer(Def("adam"), 9);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), Code::kBadJob);
  EXPECT_NE(made.status().message().find("sgd, momentum"), std::string::npos);
  EXPECT_EQ(OptimizerNames(), (std::vector<std::string>{"sgd", "momentum"}));
}

TEST(Optimizer, ImpossibleMomentumIsRefused) {
  for (double momentum : {-0.1, 1.1, std::nan("")}) {
    EXPECT_EQ(MakeOptimizer(Def("momentum", momentum), 9).status().code(), Code::kBadJob);
  }
}

}  // namespace
}  // namespace tern::update
