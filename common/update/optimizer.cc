#include "common/update/optimizer.h"

#include <cmath>

#include "common/base/text.h"
#include "kernels/optimizer.h"

namespace tern::update {
namespace {

using Made = Result<std::unique_ptr<Optimizer>>;

class Sgd : public Optimizer {
 public:
  std::vector<Slot> Slots() override { return {}; }
  void Update(float* w, const float* g, size_t, size_t n, float learning_rate,
              float decay) override {
    kernels::SgdUpdate(w, g, n, learning_rate, decay);
  }
};

class Momentum : public Optimizer {
 public:
  Momentum(float momentum, size_t parameters) : momentum_(momentum), velocity_(parameters) {}

  std::vector<Slot> Slots() override { return {{"momentum", velocity_}}; }
  void Update(float* w, const float* g, size_t first, size_t n, float learning_rate,
              float decay) override {
    kernels::MomentumUpdate(w, velocity_.data() + first, g, n, learning_rate, momentum_, decay);
  }

 private:
  float momentum_;
  std::vector<float> velocity_;
};

Made MakeSgd(const pb::Optimizer&, size_t) {
  return std::unique_ptr<Optimizer>(std::make_unique<Sgd>());
}

Made MakeMomentum(const pb::Optimizer& def, size_t parameters) {
  if (!(def.momentum() >= 0 && def.momentum() <= 1)) {
    return Status(Code::kBadJob, "train.optimizer.momentum is " + std::to_string(def.momentum()) +
                                     ", expected a number from 0 to 1");
  }
  return std::unique_ptr<Optimizer>(
      std::make_unique<Momentum>(static_cast<float>(def.momentum()), parameters));
}

struct Row {
  const char* name;
  Made (*make)(const pb::Optimizer& def, size_t parameters);
};

const Row kTable[] = {
    {"sgd", MakeSgd},
    {"momentum", MakeMomentum},
};

}  // namespace

const std::vector<std::string>& OptimizerNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Row& row : kTable) all.emplace_back(row.name);
    return all;
  }();
  return names;
}

Result<std::unique_ptr<Optimizer>> MakeOptimizer(const pb::Optimizer& def, size_t parameters) {
  for (const Row& row : kTable) {
    if (def.name() == row.name) return row.make(def, parameters);
  }
  return Status(Code::kBadJob, "train.optimizer.name is '" + def.name() + "', expected one of " +
                                   Join(OptimizerNames()));
}

}  // namespace tern::update
