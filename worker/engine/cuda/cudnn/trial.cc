#include "worker/engine/cuda/cudnn/trial.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/clock.h"
#include "kernels/device/tiling.h"
#include "worker/engine/cuda/cudnn/graph.h"
#include "worker/engine/cuda/cudnn/operations.h"

namespace tern::engine::cuda::cudnn {
namespace {

using kernels::DeviceType;

constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;
// A plan is timed kRounds times, each time over at most 8 runs and about 8 ms, but at least over
// one run. More would take too long, because a net may have a thousand candidates.
constexpr int kRounds = 3;
constexpr float kMaxTimedRuns = 8, kMaxTimedMs = 8;
// How long the GPU must compute until it is surely at its full clock rate.
constexpr double kWarmUpSeconds = 0.1;

// The bits of 1 in a type of images.
uint32_t BitsOfOne(DeviceType type) {
  switch (type) {
    case DeviceType::kBfloat:
      return 0x3F80;
    case DeviceType::kHalf:
      return 0x3C00;
    case DeviceType::kFloat:
      break;
  }
  return 0x3F800000;
}

// Returns `bytes` bytes of the numbers -1, 0 and 1 in no regular order.
std::vector<uint8_t> SmallNumbers(DeviceType type, size_t bytes, uint32_t seed) {
  const size_t size = kernels::BytesOf(type);
  const uint32_t one = BitsOfOne(type), sign = 1u << (8 * size - 1);
  std::vector<uint8_t> numbers(bytes);
  uint32_t state = seed;
  for (size_t i = 0; i + size <= bytes; i += size) {
    state = state * 1664525 + 1013904223;
    const uint32_t draw = state >> 30;
    const uint32_t bits = draw == 0 ? one | sign : draw == 1 ? one : 0;
    memcpy(numbers.data() + i, &bits, size);
  }
  return numbers;
}

// Whether two arrays have the same numbers. -0 equals 0.
template <typename Bits>
bool HaveSameNumbers(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  if (a == b) return true;
  for (size_t i = 0; i < a.size(); i += sizeof(Bits)) {
    Bits x, y;
    memcpy(&x, a.data() + i, sizeof x);
    memcpy(&y, b.data() + i, sizeof y);
    const bool are_zero = ((x | y) & static_cast<Bits>(~Bits{0} >> 1)) == 0;
    if (x != y && !are_zero) return false;
  }
  return true;
}

// Whether the results of a pass are compared with those of our own loops.
bool IsChecked(const ConvShape& shape, ConvPass pass) {
  const auto& [rows, columns] = shape.slide.window;
  return HasUnequalPadding(shape.slide) ||
         (Normalizes(shape, pass) && (rows.pad > 0 || columns.pad > 0));
}

}  // namespace

Result<std::unique_ptr<Trial>> Trial::Make(kernels::DeviceStream stream, const ConvShape& shape,
                                           ConvPass pass) {
  std::unique_ptr<Trial> trial(new Trial(stream, shape, pass));
  TERN_RETURN_IF_ERROR(trial->Allocate());
  if (IsChecked(shape, pass)) TERN_RETURN_IF_ERROR(trial->PrepareCheck());
  return trial;
}

Status Trial::Allocate() {
  const kernels::DeviceSlide& slide = shape_.slide;
  const size_t kernel_elements = size_t{slide.out.c} * (slide.in.c / shape_.groups) *
                                 slide.window.rows.kernel * slide.window.columns.kernel;
  const size_t norm_elements = TakesNormGradient(shape_, pass_) ? slide.in.size() : 0;
  for (const size_t num_elements :
       {size_t{slide.in.size()}, kernel_elements, size_t{slide.out.size()}, size_t{slide.out.c},
        size_t{2} * slide.in.c, norm_elements})
    array_bytes_.push_back(num_elements * kernels::BytesOf(shape_.type));
  array_bytes_.push_back(size_t{2} * slide.out.c * sizeof(float));
  array_bytes_.push_back(kernels::NormArrays::kArrays * slide.in.c * sizeof(float));
  for (const size_t bytes : array_bytes_) {
    auto memory = device::AllocateDevice(bytes);
    if (!memory.ok()) return memory.status();
    memory_.push_back(std::move(*memory));
  }
  return Ok();
}

Status Trial::PrepareCheck() {
  for (uint32_t i = 0; i < memory_.size(); ++i) {
    // The same numbers again and again, because an array may have hundreds of megabytes. Their
    // count is a prime, so that they meet other channels each time.
    constexpr size_t kMostNumbers = 1000003;
    const size_t bytes = array_bytes_[i];
    const std::vector<uint8_t> numbers =
        SmallNumbers(shape_.type, std::min(bytes, kMostNumbers * kernels::BytesOf(shape_.type)), i);
    for (size_t begin = 0; begin < bytes; begin += numbers.size()) {
      TERN_RETURN_IF_ERROR(device::CheckCuda(
          cudaMemcpy(static_cast<std::byte*>(memory_[i].get()) + begin, numbers.data(),
                     std::min(numbers.size(), bytes - begin), cudaMemcpyHostToDevice),
          "cudaMemcpy"));
    }
  }
  // cudaMemcpy may return before the bytes have arrived, and other streams do not wait for them.
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"));
  Planning only_for_the_trial;
  const std::unique_ptr<ConvPlan> loops = MakeConvLoops(&only_for_the_trial)->Plan(shape_, pass_);
  TERN_RETURN_IF_ERROR(EnsureWorkspace(loops->workspace_bytes()));
  TERN_RETURN_IF_ERROR(loops->Run(stream_, data()));
  auto result = ReadResult();
  if (!result.ok()) return result.status();
  expected_result_ = std::move(*result);
  return Ok();
}

size_t Trial::ResultArray() const {
  switch (pass_) {
    case ConvPass::kBackwardData:
      return 0;
    case ConvPass::kBackwardWeights:
      return 1;
    case ConvPass::kForward:
      break;
  }
  return 2;
}

Result<std::vector<uint8_t>> Trial::ReadResult() {
  TERN_RETURN_IF_ERROR(Wait());
  std::vector<uint8_t> result(array_bytes_[ResultArray()]);
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaMemcpy(result.data(), memory_[ResultArray()].get(),
                                                    result.size(), cudaMemcpyDeviceToHost),
                                         "cudaMemcpy"));
  return result;
}

ConvData Trial::data() const {
  return {.x = memory_[0].get(),
          .kernel = memory_[1].get(),
          .y = memory_[2].get(),
          .bias = memory_[3].get(),
          .sums = static_cast<float*>(memory_[6].get()),
          .norm = memory_[4].get(),
          .norm_input = memory_[5].get(),
          .norm_arrays = static_cast<float*>(memory_[7].get()),
          .workspace = workspace_.get()};
}

Status Trial::Wait() {
  return device::CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

Status Trial::EnsureWorkspace(size_t bytes) {
  if (bytes <= workspace_bytes_) return Ok();
  workspace_.reset();
  workspace_bytes_ = 0;
  auto workspace = device::AllocateDevice(bytes);
  lacked_memory_ = lacked_memory_ || !workspace.ok();
  if (!workspace.ok()) return workspace.status();
  workspace_ = std::move(*workspace);
  workspace_bytes_ = bytes;
  return Ok();
}

void Trial::EnsureWorkspaceFor(std::span<ConvPlan* const> plans) {
  size_t limit = kMaxWorkspaceBytes, most_bytes = 0;
  do {
    most_bytes = 0;
    for (const ConvPlan* plan : plans) {
      if (plan->workspace_bytes() <= limit)
        most_bytes = std::max(most_bytes, plan->workspace_bytes());
    }
    limit = most_bytes == 0 ? 0 : most_bytes - 1;
  } while (most_bytes > 0 && !EnsureWorkspace(most_bytes).ok());
}

Status Trial::Run(ConvPlan* plan) {
  if (plan->workspace_bytes() > kMaxWorkspaceBytes)
    return Status(Code::kBadJob, "its workspace is too large");
  TERN_RETURN_IF_ERROR(EnsureWorkspace(plan->workspace_bytes()));
  if (!expected_result_.empty()) TERN_RETURN_IF_ERROR(SpoilResult());
  TERN_RETURN_IF_ERROR(plan->Run(stream_, data()));
  return expected_result_.empty() ? Wait() : CheckResult();
}

Status Trial::SpoilResult() {
  constexpr int kBytesOfNan = 0xFF;
  return device::CheckCuda(cudaMemsetAsync(memory_[ResultArray()].get(), kBytesOfNan,
                                           array_bytes_[ResultArray()], stream_),
                           "cudaMemsetAsync");
}

Status Trial::CheckResult() {
  const auto result = ReadResult();
  if (!result.ok()) return result.status();
  const bool is_right = kernels::BytesOf(shape_.type) == 4
                            ? HaveSameNumbers<uint32_t>(*result, expected_result_)
                            : HaveSameNumbers<uint16_t>(*result, expected_result_);
  return is_right ? Ok() : Status(Code::kBadJob, "its result is wrong");
}

Result<Trial::Timed> Trial::Prepare(size_t index, ConvPlan* plan) {
  TERN_RETURN_IF_ERROR(Run(plan));  // The first run is slow.
  const auto run_once = [&] { return plan->Run(stream_, data()); };
  [[maybe_unused]] static const bool is_warm = [&] {
    const Time begin = Now();
    while (Seconds(Now() - begin) < kWarmUpSeconds && TimeMs(run_once).ok()) {
    }
    return true;
  }();
  const Result<float> once_ms = TimeMs(run_once);
  if (!once_ms.ok()) return once_ms.status();
  Timed timed{.index = index, .least_ms = *once_ms};
  timed.runs = static_cast<int>(std::clamp(kMaxTimedMs / *once_ms, 1.0f, kMaxTimedRuns));
  auto graph = device::Graph::Capture(stream_, [&] {
    for (int run = 0; run < timed.runs; ++run) TERN_RETURN_IF_ERROR(run_once());
    return Ok();
  });
  if (graph.ok()) timed.graph = std::move(*graph);
  return timed;
}

// Times replays of captured runs, because the time of single launches of a short plan would mostly
// be the host's. The least of several times is the one that is disturbed least.
Result<size_t> Trial::FastestOf(std::span<ConvPlan* const> plans) {
  EnsureWorkspaceFor(plans);
  std::vector<Timed> timed_plans;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i]->workspace_bytes() > workspace_bytes_) continue;
    auto timed = Prepare(i, plans[i]);
    if (timed.ok()) timed_plans.push_back(std::move(*timed));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (Timed& timed : timed_plans) {
      if (timed.graph == nullptr) continue;
      const Result<float> total_ms = TimeMs([&] { return timed.graph->Launch(stream_); });
      if (!total_ms.ok()) return total_ms.status();
      timed.least_ms = std::min(timed.least_ms, *total_ms / static_cast<float>(timed.runs));
    }
  }
  const auto fastest =
      std::min_element(timed_plans.begin(), timed_plans.end(),
                       [](const Timed& a, const Timed& b) { return a.least_ms < b.least_ms; });
  if (fastest == timed_plans.end()) return Status(Code::kBadJob, "no engine is suitable");
  return fastest->index;
}

Result<float> Trial::TimeMs(const std::function<Status()>& launch) {
  struct Timer {
    Timer() { cudaEventCreate(&event); }
    ~Timer() { cudaEventDestroy(event); }
    cudaEvent_t event = nullptr;
  } begin, end;
  float time_ms = 0;
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaEventRecord(begin.event, stream_), "cudaEventRecord"));
  TERN_RETURN_IF_ERROR(launch());
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaEventRecord(end.event, stream_), "cudaEventRecord"));
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaEventSynchronize(end.event), "cudaEventSynchronize"));
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaEventElapsedTime(&time_ms, begin.event, end.event),
                                         "cudaEventElapsedTime"));
  return time_ms;
}

}  // namespace tern::engine::cuda::cudnn
