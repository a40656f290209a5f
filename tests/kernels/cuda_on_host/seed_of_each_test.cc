// Gives each test of a program its own seed for the simulated GPU (streams.h), which depends on the
// test's name and on TERN_CUDA_ON_HOST_SEED.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>

#include "tests/kernels/cuda_on_host/streams.h"

namespace cuda_on_host {
namespace {

class SeedOfEachTest : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    Device::Get().SetSeed(base_seed_ + std::hash<std::string>()(name));
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Failed())
      std::printf("TERN_CUDA_ON_HOST_SEED=%llu\n", static_cast<unsigned long long>(base_seed_));
  }

 private:
  const uint64_t base_seed_ = Device::Get().seed();
};

// A listener is the only way to a seed before the constructor of the test's fixture.
const bool kIsListening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new SeedOfEachTest);
  return true;
}();

}  // namespace
}  // namespace cuda_on_host
