// The optimizer of a replica: names and state of the rules in kernels/optimizer.h. It sees the
// model as one arena.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"

namespace tern::update {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Arrays of state, each as long as the model, by name ("momentum"); zero at the start. They are
  // part of State and of checkpoints. The spans stay valid as long as the optimizer.
  struct Slot {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<Slot> Slots() = 0;
  // Updates elements [first, first + n) of the model: w and g point at element `first`.
  virtual void Update(float* w, const float* g, size_t first, size_t n, float learning_rate,
                      float decay) = 0;
};

// `parameters` is the number of elements of the model. kBadJob for an unknown name.
Result<std::unique_ptr<Optimizer>> MakeOptimizer(const pb::Optimizer& def, size_t parameters);
const std::vector<std::string>& OptimizerNames();

}  // namespace tern::update
