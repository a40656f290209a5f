// Tests that OD-SGD's local update (a step with a worker's own gradient, from the weights w to the
// point at which the worker computes its next gradient) gives the same bits on a GPU as on the CPU.
// The updaters dcasgd_c and dcasgd_a compensate for the difference between w and the weights
// `reference`.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/update/local_updater.h"
#include "kernels/device/tiling.h"
#include "kernels/update/local_step.h"
#include "tests/kernels/codes/device_coded.h"
#include "tests/kernels/device/device_parts.h"
#include "tests/kernels/same_bits.h"

namespace tern::kernels {
namespace {

struct LocalCase {
  const char* name;
  const char* updater;
  float momentum = 0;
  bool scales_to_mean = false;  // Whether the gradient is divided by the number of workers.
};

void PrintTo(const LocalCase& local_case, std::ostream* out) { *out << local_case.name; }

class DeviceLocalSteps : public DeviceCodes, public testing::WithParamInterface<LocalCase> {};

TEST_P(DeviceLocalSteps, MatchCpu) {
  pb::LocalUpdater updater_def;
  updater_def.set_name(GetParam().updater);
  updater_def.set_lambda(0.04);
  updater_def.set_momentum(GetParam().momentum);
  if (GetParam().scales_to_mean) updater_def.set_grad_scale(pb::LocalUpdater::global_mean);
  const auto parts = MakeParts({1, 700, 4096, 4097, 9});
  const size_t n = ArenaSize(parts);
  const auto updater = std::move(*update::MakeLocalUpdater(updater_def, n, 3));
  std::vector<float> velocity(n), mean_square(n);
  std::vector<TensorRates> rates;
  for (const Part& part : parts) {
    rates.push_back({.decay = part.tensor % 2 == 0 ? 0.01f : 0,
                     .rate_times = 1 + 0.3f * static_cast<float>(part.tensor)});
  }
  TilingOnDevice tiling(parts);
  DeviceArray<float> w(NormalValues(n, 1, 1)), reference(NormalValues(n, 1, 2)),
      point(std::vector<float>(n, 0));
  DeviceArray<float> velocity_on_device(velocity), mean_square_on_device(mean_square);
  DeviceArray<TensorRates> rates_on_device(rates);
  std::vector<float> expected(n);
  const std::vector<float> w_on_cpu = w.Read(), reference_on_cpu = reference.Read();
  for (uint64_t round = 0; round < 3; ++round) {
    const std::vector<float> g = NormalValues(n, 1, 10 + round);
    DeviceArray<float> g_on_device(g);
    LocalArenas arenas{w.data(), g_on_device.data(), reference.data()};
    for (const update::Optimizer::StateArray& state_array : updater->StateArrays())
      (state_array.name == "local_momentum" ? arenas.velocity : arenas.mean_square) =
          (state_array.name == "local_momentum" ? velocity_on_device : mean_square_on_device)
              .data();
    arenas.point = point.data();
    ASSERT_EQ(MoveLocallyOnDevice(nullptr, tiling.Get(), updater->CoefficientsOf(0.1f),
                                  rates_on_device.data(), arenas),
              0);
    for (size_t p = 0; p < parts.size(); ++p) {
      const Part& part = parts[p];
      updater->ComputeLocalWeights(w_on_cpu.data() + part.begin, g.data() + part.begin,
                                   reference_on_cpu.data() + part.begin, 0.1f,
                                   expected.data() + part.begin, part.count, part.begin, rates[p]);
    }
    ExpectSameBits(point.Read(), expected);
    for (const update::Optimizer::StateArray& state_array : updater->StateArrays()) {
      ExpectSameBits(
          (state_array.name == "local_momentum" ? velocity_on_device : mean_square_on_device)
              .Read(),
          {state_array.values.begin(), state_array.values.end()});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DeviceLocalSteps,
                         testing::Values(LocalCase{"none", "none"}, LocalCase{"sgd", "sgd"},
                                         LocalCase{"momentum", "sgd", 0.9f, true},
                                         LocalCase{"constant", "dcasgd_c"},
                                         LocalCase{"adaptive", "dcasgd_a", 0.9f},
                                         LocalCase{"adaptive_of_mean", "dcasgd_a", 0, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tern::kernels
