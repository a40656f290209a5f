// Tests that a GPU rotates to the same bits as the CPU, and back.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/codes/rotate.h"
#include "tests/kernels/codes/device_coded.h"

namespace tern::kernels {
namespace {

class DeviceRotations : public DeviceCodes, public testing::WithParamInterface<uint64_t> {
 protected:
  uint64_t block() const { return GetParam(); }

  // Whole tensors of these sizes; the last one is cut into two parts, the second of which begins in
  // the middle of a Philox block if that of a rotation allows it.
  std::vector<Part> Parts() const {
    std::vector<Part> parts;
    uint64_t begin = 0;
    const auto add = [&](uint64_t count, uint64_t first, uint32_t tensor) {
      begin += 3;
      parts.push_back({begin, count, first, tensor, 0});
      begin += count;
    };
    uint32_t tensor = 0;
    for (const uint64_t count : {uint64_t{1}, uint64_t{100}, uint64_t{4096}, uint64_t{4097},
                                 uint64_t{12345}, block(), 3 * block() + 777, 2 * block() + 4096})
      add(count, 0, ++tensor);
    add(3 * block(), 0, ++tensor);
    add(2 * block() + 63, 3 * block(), tensor);
    return parts;
  }
  // Rotates the arena x on the CPU, part by part.
  std::vector<float> OnCpu(const std::vector<float>& x, bool back) const {
    std::vector<float> y = x;
    for (const Part& part : Parts()) {
      const Rotation rotation{.seed = kSeed, .tensor = part.tensor, .block = block()};
      (back ? RotateBackRef : RotateRef)(x.data() + part.begin, part.first, part.count, rotation,
                                         y.data() + part.begin);
    }
    return y;
  }

  static constexpr uint64_t kSeed = 0x123456789abcdef;
};

TEST_P(DeviceRotations, MatchCpuForthAndBack) {
  const std::vector<Part> parts = Parts();
  const std::vector<float> x = NormalValues(ArenaSize(parts), 1, 1);
  TilingOnDevice tiling(parts);
  const Rotation rotation{.seed = kSeed, .block = block()};
  DeviceArray<float> from(x), to(x);
  DeviceArray<uint32_t> num_bad(std::vector<uint32_t>(1));
  ASSERT_EQ(RotateOnDevice(nullptr, tiling.Get(), rotation, from.data(), to.data()), 0);
  EXPECT_EQ(to.Read(), OnCpu(x, false));
  EXPECT_EQ(from.Read(), x);
  ASSERT_EQ(RotateOnDevice(nullptr, tiling.Get(), rotation, from.data(), from.data()), 0);
  EXPECT_EQ(from.Read(), to.Read()) << "in place";
  ASSERT_EQ(RotateBackOnDevice(nullptr, tiling.Get(), rotation, to.data(), num_bad.data()), 0);
  EXPECT_EQ(to.Read(), OnCpu(OnCpu(x, false), true));
  EXPECT_EQ(num_bad.Read()[0], 0u);
}

TEST_P(DeviceRotations, CountResultsThatOverflow) {
  const std::vector<Part> parts = Parts();
  std::vector<float> y = NormalValues(ArenaSize(parts), 1, 2);
  const Part& whole_block = parts[5];  // of block() elements
  y[whole_block.begin + 7] = std::numeric_limits<float>::infinity();
  TilingOnDevice tiling(parts);
  DeviceArray<float> arena(y);
  DeviceArray<uint32_t> num_bad(std::vector<uint32_t>(1));
  ASSERT_EQ(RotateBackOnDevice(nullptr, tiling.Get(), {.seed = kSeed, .block = block()},
                               arena.data(), num_bad.data()),
            0);
  EXPECT_EQ(num_bad.Read()[0], block());
}

INSTANTIATE_TEST_SUITE_P(Blocks, DeviceRotations,
                         testing::Values(64, 128, 1024, 4096, 8192, 65536));

}  // namespace
}  // namespace tern::kernels
