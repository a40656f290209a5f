// Gives each test of a program its own seed for the simulated GPU (streams.h), which depends on the
// test's name, on TERN_CUDA_ON_HOST_SEED, and on the repetition (--gtest_repeat).
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>

#include "tests/kernels/cuda_on_host/streams.h"

namespace cuda_on_host {
namespace {

class SeedOfEachTest : public testing::EmptyTestEventListener {
  void OnTestIterationStart(const testing::UnitTest&, int iteration) override {
    seed_ = base_seed_ + static_cast<uint64_t>(iteration);
  }
  void OnTestStart(const testing::TestInfo& test) override {
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    Device::Get().SetSeed(seed_ + std::hash<std::string>()(name));
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed())
      std::printf("TERN_CUDA_ON_HOST_SEED=%llu\n", static_cast<unsigned long long>(seed_));
  }

 private:
  const uint64_t base_seed_ = Device::Get().seed();
  uint64_t seed_ = base_seed_;
};

// A listener is the only way to a seed before the constructor of the test's fixture.
const bool kIsListening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SeedOfEachTest);
  return true;
}();

}  // namespace
}  // namespace cuda_on_host
