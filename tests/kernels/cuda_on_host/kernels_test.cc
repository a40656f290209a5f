// How the simulated GPU runs kernels, and faults of kernels that it must show.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/nn/device_images.h"
#include "kernels/nn/rows.h"

namespace cuda_on_host {
namespace {

constexpr uint64_t kSeeds = 40;
constexpr uint32_t kAll = 0xFFFFFFFF, kLowHalf = 0xFFFF, kHighHalf = 0xFFFF0000;

// An array on the device that a test and kernels share.
template <typename T>
class Shared {
 public:
  explicit Shared(size_t count, T value = {}) : values_(count, value) {}
  T* data() { return values_.data(); }
  // The values, after all launches.
  std::vector<T> Read() {
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return values_;
  }

 private:
  std::vector<T> values_;
};

template <typename... Parameters>
cudaError_t Launch(void (*kernel)(Parameters...), uint32_t blocks, uint32_t threads,
                   std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config;
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

class Kernels : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Device::Get().SetSeed(1);
  }
  void TearDown() override { cudaGetLastError(); }
};

// Runs a kernel of one block to its end, for death tests.
void RunBlock(void (*kernel)(uint32_t*), uint32_t threads) {
  Shared<uint32_t> out(64);
  if (Launch(kernel, 1, threads, out.data()) == cudaSuccess) out.Read();
}

// --- Warps.

void ExchangeInWarp(uint32_t* out) {
  const uint32_t lane = threadIdx.x;
  out[lane] = __shfl_sync(kAll, lane, 5) + 100 * __shfl_xor_sync(kAll, lane, 1) +
              10000 * __ballot_sync(kAll, lane < 3);
}

TEST_F(Kernels, LanesExchangeWords) {
  Shared<uint32_t> out(32);
  ASSERT_EQ(Launch(ExchangeInWarp, 1, 32, out.data()), cudaSuccess);
  const std::vector<uint32_t> values = out.Read();
  for (uint32_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(values[lane], 5 + 100 * (lane ^ 1) + 70000) << lane;
}

// The halves of the warp exchange different numbers of words.
void ExchangeInHalves(uint32_t* out) {
  const uint32_t lane = threadIdx.x, half = lane < 16 ? kLowHalf : kHighHalf;
  uint32_t word = lane;
  for (uint32_t i = 0; i < (lane < 16 ? 3 : 8); ++i)
    word = __shfl_sync(half, word + 1, lane < 16 ? 3 : 20);
  __syncwarp();
  out[lane] = word + 100 * __shfl_down_sync(kAll, word, 16);
}

TEST_F(Kernels, PartsOfAWarpExchangeWordsByThemselves) {
  Shared<uint32_t> out(32);
  ASSERT_EQ(Launch(ExchangeInHalves, 1, 32, out.data()), cudaSuccess);
  const std::vector<uint32_t> values = out.Read();
  EXPECT_EQ(values[0], 6 + 100 * 28u);
  EXPECT_EQ(values[15], 6 + 100 * 28u);
  EXPECT_EQ(values[16], 28 + 100 * 28u);
}

void LaneMissesInMask(uint32_t* out) {
  out[threadIdx.x] = __shfl_sync(kAll ^ 8, threadIdx.x.load(), 0);
}
void LanesDisagree(uint32_t* out) {
  out[threadIdx.x] = __ballot_sync(threadIdx.x < 7 ? kAll : kAll ^ 1, true);
}
void CallsDiffer(uint32_t* out) {
  if (threadIdx.x < 7) {
    __syncwarp();
  } else {
    out[threadIdx.x] = __ballot_sync(kAll, true);
  }
}
void LaneHasReturned(uint32_t* out) {
  if (threadIdx.x == 0) return;
  __syncthreads();
  out[threadIdx.x] = __ballot_sync(kAll, true);
}
void LaneHasReturnedFromWarp(uint32_t* out) {
  if (threadIdx.x == 0) return;
  out[threadIdx.x] = __ballot_sync(kAll, true);
}
void ReadsOutsideMask(uint32_t* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(kLowHalf, 1u, 16);
}
void NotAllCome(uint32_t* out) {
  if (threadIdx.x != 9) out[threadIdx.x] = __ballot_sync(kAll, true);
  __syncthreads();
}

TEST_F(Kernels, WrongMasksAreSeen) {
  EXPECT_DEATH(RunBlock(LaneMissesInMask, 32), "not in the mask that it passes");
  EXPECT_DEATH(RunBlock(LanesDisagree, 32), "in different calls or with different masks");
  EXPECT_DEATH(RunBlock(CallsDiffer, 32), "in different calls or with different masks");
  EXPECT_DEATH(RunBlock(ExchangeInWarp, 31), "do not exist or have returned");
  EXPECT_DEATH(RunBlock(LaneHasReturnedFromWarp, 32), "do not exist or have returned");
  EXPECT_DEATH(RunBlock(ReadsOutsideMask, 32), "reads from a lane that is not in the mask");
}

TEST_F(Kernels, WaitsThatNeverEndAreSeen) {
  EXPECT_DEATH(RunBlock(LaneHasReturned, 32), "wait at a barrier that others never reach");
  EXPECT_DEATH(RunBlock(NotAllCome, 32), "wait at a barrier that others never reach");
}

void Traps(uint32_t*) { __trap(); }

TEST_F(Kernels, ATrapIsSeen) { EXPECT_DEATH(RunBlock(Traps, 1), "has called __trap"); }

// --- Blocks.

void RecordOrder(uint32_t* counter, uint32_t* order) { order[blockIdx.x] = atomicAdd(counter, 1); }

TEST_F(Kernels, OrderOfBlocksDependsOnTheSeed) {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Device::Get().SetSeed(seed);
    Shared<uint32_t> counter(1), order(8);
    ASSERT_EQ(Launch(RecordOrder, 8, 1, counter.data(), order.data()), cudaSuccess);
    orders.insert(order.Read());
    EXPECT_THAT(order.Read(), testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  }
  EXPECT_GT(orders.size(), kSeeds / 2);
}

// Wrong: relies on block 0 to run first.
void ReadWhatBlock0Writes(uint32_t* word, uint32_t* out) {
  if (blockIdx.x == 0) *word = 1;
  out[blockIdx.x] = *word;
}

TEST_F(Kernels, RelianceOnTheOrderOfBlocksIsSeen) {
  if (__tsan_switch_to_fiber != nullptr) GTEST_SKIP() << "a race, which the sanitizer reports";
  uint64_t num_wrong = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Device::Get().SetSeed(seed);
    Shared<uint32_t> word(1), out(4);
    ASSERT_EQ(Launch(ReadWhatBlock0Writes, 4, 1, word.data(), out.data()), cudaSuccess);
    num_wrong += out.Read() != std::vector<uint32_t>(4, 1);
  }
  EXPECT_GT(num_wrong, kSeeds / 2);
}

// Right: the last block reads what the others have stored before they counted.
void AddInLastBlock(uint32_t* stored, uint32_t* counter, uint32_t* sum) {
  stored[blockIdx.x] = blockIdx.x;
  if (atomicAdd(counter, 1) + 1 < gridDim.x) return;
  for (uint32_t b = 0; b < gridDim.x; ++b) *sum += stored[b];
}

TEST_F(Kernels, LastBlockSeesWhatAllHaveStored) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Device::Get().SetSeed(seed);
    Shared<uint32_t> stored(8), counter(1), sum(1);
    ASSERT_EQ(Launch(AddInLastBlock, 8, 1, stored.data(), counter.data(), sum.data()), cudaSuccess);
    EXPECT_EQ(sum.Read()[0], 28u);
  }
}

// --- Races, which the thread sanitizer must report.

void RunRacyBlocks() {
  Shared<uint32_t> word(1), out(64);
  if (Launch(ReadWhatBlock0Writes, 64, 1, word.data(), out.data()) == cudaSuccess) out.Read();
  std::exit(0);
}

// A shuffle lets lane 1 read after lane 0 has written, but orders no memory. kFence: __syncwarp
// does.
template <bool kFence>
void PassOn(uint32_t* word, uint32_t* out) {
  if (threadIdx.x == 0) *word = 1;
  __shfl_sync(kAll, 0, 0);
  if (kFence) __syncwarp();
  if (threadIdx.x == 1) *out = *word;
}

template <bool kFence>
void RunPassOn() {
  Shared<uint32_t> word(1), out(1);
  if (Launch(PassOn<kFence>, 1, 32, word.data(), out.data()) == cudaSuccess) out.Read();
  std::exit(0);
}

TEST_F(Kernels, RacesAreReported) {
  if (__tsan_switch_to_fiber == nullptr) GTEST_SKIP() << "needs the thread sanitizer";
  constexpr int kRaceFound = 66;  // the sanitizer's exit code
  EXPECT_EXIT(RunRacyBlocks(), testing::ExitedWithCode(kRaceFound), "data race");
  EXPECT_EXIT(RunPassOn<false>(), testing::ExitedWithCode(kRaceFound), "data race");
  EXPECT_EXIT(RunPassOn<true>(), testing::ExitedWithCode(0), "");
}

// --- Limits of launches.

void DoNothing(uint32_t*) {}

TEST_F(Kernels, LaunchesBeyondTheLimitsAreRefused) {
  uint32_t* const none = nullptr;
  EXPECT_EQ(Launch(DoNothing, 1, kMaxThreads, none), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  for (const auto& [blocks, threads] :
       std::vector<std::pair<uint32_t, uint32_t>>{{0, 32}, {0x80000000, 32}, {1, 0}, {1, 1025}})
    EXPECT_EQ(Launch(DoNothing, blocks, threads, none), cudaErrorInvalidConfiguration)
        << blocks << " blocks of " << threads;
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
}

TEST_F(Kernels, WithoutCodeForTheDeviceAreRefused) {
  cudaFuncAttributes attributes;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, DoNothing), cudaSuccess);
  has_code = false;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, DoNothing), cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(Launch(DoNothing, 1, 1, static_cast<uint32_t*>(nullptr)),
            cudaErrorNoKernelImageForDevice);
  has_code = true;
}

// Larger parameters do not compile.
static_assert(ParameterBytes<std::array<char, 4096>>() == kMaxParameterBytes);
static_assert(ParameterBytes<uint64_t, std::array<char, 4096>>() > kMaxParameterBytes);

// --- Memory that was not initialized.

template <typename T>
void AddAll(const T* values, uint32_t count, T* sum) {
  for (uint32_t i = 0; i < count; ++i) *sum += values[i];
}

template <typename T>
T SumOfPartlyWritten() {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4 * sizeof(T)), cudaSuccess);
  EXPECT_EQ(cudaMemset(memory, 0, 3 * sizeof(T)), cudaSuccess);
  Shared<T> sum(1);
  EXPECT_EQ(Launch(AddAll<T>, 1, 1, static_cast<T*>(memory), 4, sum.data()), cudaSuccess);
  const T result = sum.Read()[0];
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  return result;
}

TEST_F(Kernels, ReadsOfUninitializedMemoryAreSeen) {
  EXPECT_TRUE(std::isnan(SumOfPartlyWritten<float>()));
  EXPECT_TRUE(std::isnan(SumOfPartlyWritten<double>()));
}

// --- Functions that are not exact on a GPU.

template <typename T>
struct Function {
  const char* name;
  T (*on_device)(T);
  T (*on_host)(T);
};

// Expects that of the results some are the host's, some the next and some the previous number.
template <typename T>
void ExpectLastPlaceDiffers(const Function<T>& function) {
  const T infinity = std::numeric_limits<T>::infinity();
  int num_equal = 0, num_above = 0, num_below = 0;
  for (int i = 1; i <= 300; ++i) {
    const T x = static_cast<T>(i) / 64;
    const T host = function.on_host(x), device = function.on_device(x);
    EXPECT_EQ(device, function.on_device(x)) << "the same each time";
    num_equal += device == host;
    num_above += device == std::nextafter(host, infinity);
    num_below += device == std::nextafter(host, -infinity);
  }
  EXPECT_EQ(num_equal + num_above + num_below, 300) << function.name;
  for (const int count : {num_equal, num_above, num_below}) EXPECT_GT(count, 50) << function.name;
}

TEST_F(Kernels, FunctionsDifferInTheLastPlace) {
  namespace device = tern::kernels;
  for (const Function<double>& function :
       std::vector<Function<double>>{{"exp", device::exp, std::exp},
                                     {"log", device::log, std::log},
                                     {"tanh", device::tanh, std::tanh},
                                     {"pow", [](double x) { return device::pow(x, -0.75); },
                                      [](double x) { return std::pow(x, -0.75); }}})
    ExpectLastPlaceDiffers(function);
  for (const Function<float>& function :
       std::vector<Function<float>>{{"expf", device::expf, std::exp},
                                    {"logf", device::logf, std::log},
                                    {"tanhf", device::tanhf, std::tanh},
                                    {"powf", [](float x) { return device::powf(x, -0.75f); },
                                     [](float x) { return std::pow(x, -0.75f); }}})
    ExpectLastPlaceDiffers(function);
}

TEST_F(Kernels, FunctionsDependOnTheSeed) {
  std::set<double> results;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Device::Get().SetSeed(seed);
    results.insert(tern::kernels::exp(0.3));
  }
  EXPECT_EQ(results.size(), 3u);
  EXPECT_EQ(tern::kernels::log(1.0), 0);
  EXPECT_TRUE(std::isinf(tern::kernels::exp(1e6)));
}

// The loss of one sample on the device.
double LossOfSample(std::vector<float> scores) {
  using tern::kernels::DeviceLoss, tern::kernels::DeviceStep, tern::kernels::DeviceType;
  const uint32_t label = 1;
  DeviceStep step;
  step.used = 1;
  Shared<DeviceLoss> loss(1);
  EXPECT_EQ(tern::kernels::SoftmaxLossOnDevice(nullptr, DeviceType::kFloat, scores.data(), &label,
                                               1, static_cast<uint32_t>(scores.size()), 0, &step,
                                               loss.data(), nullptr),
            cudaSuccess);
  return loss.Read()[0].loss;
}

TEST_F(Kernels, TernsKernelsUseTheseFunctions) {
  const std::vector<float> scores = {0.3f, -1, 2, 0.7f};
  double sum = 0;
  for (const float score : scores) sum += std::exp(double{score} - 2);
  std::set<double> losses;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Device::Get().SetSeed(seed);
    losses.insert(LossOfSample(scores));
    EXPECT_NEAR(*losses.rbegin(), std::log(sum) + 3, 1e-14);
  }
  EXPECT_GT(losses.size(), 1u);
}

}  // namespace
}  // namespace cuda_on_host
