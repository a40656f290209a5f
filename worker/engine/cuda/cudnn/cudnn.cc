// Computes convolutions by cuDNN. For each shape, measures the time of the plans that cuDNN
// recommends on this GPU, and stores the fastest plan in a file, so that later runs need not
// measure again.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"
#include "worker/device/device.h"
#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/cuda/cudnn/candidates.h"
#include "worker/engine/cuda/cudnn/cublas.h"
#include "worker/engine/cuda/cudnn/graph.h"
#include "worker/engine/cuda/cudnn/plan_store.h"

namespace tern::engine::cuda {
namespace {

constexpr size_t kMaxCandidates = 8;
constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;
// A candidate is timed over at most 8 runs and about 8 ms, but at least over one run. More would
// take too long, because a net may have a thousand candidates.
constexpr float kMaxTimedRuns = 8, kMaxTimedMs = 8;

using SharedHandle = std::shared_ptr<cudnnContext>;
using SharedPlan = std::shared_ptr<const cudnn::Plan>;

class CudnnPlan : public ConvPlan {
 public:
  CudnnPlan(SharedHandle handle, SharedPlan plan, const ConvShape& shape, ConvPass pass)
      : handle_(std::move(handle)), plan_(std::move(plan)), shape_(shape), pass_(pass) {}

  size_t workspace_bytes() const override { return plan_->workspace_bytes; }
  // Runs on the stream of the cuDNN handle, which is the net's stream. Reuses cuDNN's list of
  // addresses (its variant pack) if the addresses are the same as in the previous run.
  Status Run(kernels::DeviceStream, const ConvData& data) override {
    if (variant_pack_ == nullptr || !HasSameAddresses(data)) {
      auto variant_pack = cudnn::MakeVariantPack(shape_, pass_, data);
      if (!variant_pack.ok()) return variant_pack.status();
      variant_pack_ = std::move(*variant_pack);
      last_data_ = data;
    }
    const Status run_status = cudnn::CheckCudnn(
        cudnnBackendExecute(handle_.get(), plan_->descriptor.get(), variant_pack_.get()),
        "cudnnBackendExecute");
    // Clears CUDA's last error, so that the next call of CUDA does not report it.
    if (!run_status.ok()) cudaGetLastError();
    return run_status;
  }

 private:
  bool HasSameAddresses(const ConvData& data) const {
    return data.x == last_data_.x && data.kernel == last_data_.kernel && data.y == last_data_.y &&
           data.bias == last_data_.bias && data.workspace == last_data_.workspace;
  }

  const SharedHandle handle_;  // Shared, because a CudnnPlan may outlive the Cudnn that made it.
  const SharedPlan plan_;
  const ConvShape shape_;
  const ConvPass pass_;
  cudnn::Descriptor variant_pack_;
  ConvData last_data_;
};

// The arrays of ConvData in device memory, for trial runs of a pass.
class TrialBuffers {
 public:
  static Result<TrialBuffers> Make(const ConvShape& shape) {
    const auto& [slide, groups, type, allows_tf32, has_bias, has_relu] = shape;
    const size_t kernel_elements = size_t{slide.out.c} * (slide.in.c / groups) *
                                   slide.window.rows.kernel * slide.window.columns.kernel;
    const std::array<size_t, 4> array_elements = {slide.in.size(), kernel_elements,
                                                  slide.out.size(), slide.out.c};
    TrialBuffers buffers;
    for (const size_t num_elements : array_elements) {
      auto memory = device::AllocateDevice(num_elements * kernels::BytesOf(type));
      if (!memory.ok()) return memory.status();
      buffers.memory_.push_back(std::move(*memory));
    }
    return buffers;
  }
  // Replaces the workspace.
  Status SetWorkspace(size_t bytes) {
    workspace_.reset();
    auto memory = device::AllocateDevice(bytes);
    if (memory.ok()) workspace_ = std::move(*memory);
    return memory.status();
  }
  ConvData data() const {
    return {memory_[0].get(), memory_[1].get(), memory_[2].get(), memory_[3].get(),
            workspace_.get()};
  }

 private:
  std::vector<device::DeviceMemory> memory_;
  device::DeviceMemory workspace_;
};

class Cudnn : public ConvLibrary {
 public:
  Cudnn() : store_(PlanStore::DefaultPath()) {}
  Status Initialize(kernels::DeviceStream stream);
  std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) override;

 private:
  // The key of a plan in the file: a text with the device, the versions, the pass and the shape.
  std::string KeyOf(const ConvShape& shape, ConvPass pass) const;
  Result<SharedPlan> FindPlan(const std::string& key, const ConvShape& shape, ConvPass pass);
  Result<SharedPlan> ChoosePlan(const ConvShape& shape, ConvPass pass, TrialBuffers* buffers);
  void SaveStore();
  // Allocates the plan's workspace, runs the plan once and waits. Called before a plan is timed or
  // used, because the first run is slow and may fail.
  Status RunOnce(CudnnPlan* plan, TrialBuffers* buffers);
  // Returns the mean time of a run in milliseconds, over `runs` runs; without that argument, over a
  // number of runs that suits the plan's speed.
  Result<float> MeasureTimeMs(CudnnPlan* plan, const ConvData& data);
  Result<float> MeasureTimeMs(CudnnPlan* plan, const ConvData& data, int runs);

  SharedHandle handle_;
  cudnn::Target target_;
  kernels::DeviceStream stream_ = nullptr;
  std::string device_text_;
  PlanStore store_;
  bool has_warned_ = false;  // Whether the last attempt to write the file failed and was logged.
  // The plans made so far, by key; null if cuDNN has no plan for a key.
  std::map<std::string, SharedPlan> plans_;
};

Status Cudnn::Initialize(kernels::DeviceStream stream) {
  cudnnHandle_t handle = nullptr;
  TERN_RETURN_IF_ERROR(cudnn::CheckCudnn(cudnnCreate(&handle), "cudnnCreate"));
  handle_.reset(handle, &cudnnDestroy);
  TERN_RETURN_IF_ERROR(cudnn::CheckCudnn(cudnnSetStream(handle, stream), "cudnnSetStream"));
  target_.handle = handle;
  stream_ = stream;
  cudaDeviceProp properties;
  TERN_RETURN_IF_ERROR(
      device::CheckCuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties"));
  int processor_count = 0, driver_version = 0;
  TERN_RETURN_IF_ERROR(
      device::CheckCuda(cudaDeviceGetAttribute(&processor_count, cudaDevAttrMultiProcessorCount, 0),
                        "cudaDeviceGetAttribute"));
  TERN_RETURN_IF_ERROR(
      device::CheckCuda(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion"));
  device_text_ = Cat(properties.name, " of ", processor_count, " SMs, driver ", driver_version,
                     ", cuDNN ", cudnnGetVersion());
  return Ok();
}

std::string Cudnn::KeyOf(const ConvShape& shape, ConvPass pass) const {
  const auto& [in, out, window] = shape.slide;
  const auto axis_text = [](const kernels::DeviceAxis& a) {
    return Cat(a.kernel, "/", a.stride, "/", a.dilation, "/", a.pad);
  };
  constexpr const char* kPasses[] = {"forward", "data", "weights"};
  constexpr const char* kTypes[] = {"fp32", "bf16", "fp16"};
  const bool is_forward = pass == ConvPass::kForward;
  return Cat(device_text_, ", ", kPasses[static_cast<int>(pass)], " ",
             shape.allows_tf32 ? "tf32" : kTypes[static_cast<int>(shape.type)], " ", in.n, "x",
             in.h, "x", in.w, "x", in.c, " to ", out.h, "x", out.w, "x", out.c, " by ",
             axis_text(window.rows), " ", axis_text(window.columns), " in ", shape.groups,
             is_forward && shape.has_bias ? ", bias" : "",
             is_forward && shape.has_relu ? ", relu" : "");
}

std::unique_ptr<ConvPlan> Cudnn::Plan(const ConvShape& shape, ConvPass pass) {
  const std::string key = KeyOf(shape, pass);
  const auto [found, is_new] = plans_.try_emplace(key);
  if (is_new) {
    auto plan = FindPlan(key, shape, pass);
    if (plan.ok()) {
      found->second = std::move(*plan);
    } else {
      LOG(WARNING) << "cuDNN has no plan for " << key << " (" << plan.status().message()
                   << "); slow loops of our own replace it";
    }
  }
  if (found->second == nullptr) return MakeConvLoops()->Plan(shape, pass);
  return std::make_unique<CudnnPlan>(handle_, found->second, shape, pass);
}

// Returns the plan that is stored in the file if a trial run of it succeeds, else chooses a new
// plan and stores it. Without the trial run, a stored plan that fails would end every training run
// that uses it.
Result<SharedPlan> Cudnn::FindPlan(const std::string& key, const ConvShape& shape, ConvPass pass) {
  auto buffers = TrialBuffers::Make(shape);
  if (!buffers.ok()) return buffers.status();
  if (const auto stored_json = store_.Find(key)) {
    auto loaded_plan = cudnn::PlanFromJson(target_, *stored_json);
    Status trial_status = loaded_plan.status();
    if (loaded_plan.ok()) {
      auto plan = std::make_shared<const cudnn::Plan>(std::move(*loaded_plan));
      CudnnPlan trial_plan(handle_, plan, shape, pass);
      trial_status = RunOnce(&trial_plan, &*buffers);
      if (trial_status.ok()) return SharedPlan(std::move(plan));
    }
    LOG(WARNING) << "the stored plan for " << key << " does not run (" << trial_status.message()
                 << "); another plan is chosen";
  }
  auto chosen_plan = ChoosePlan(shape, pass, &*buffers);
  if (!chosen_plan.ok()) return chosen_plan;
  store_.PutPlan(key, (*chosen_plan)->json);
  SaveStore();
  return chosen_plan;
}

// Called after each new plan, so that an interrupted run does not lose the plans it has chosen.
void Cudnn::SaveStore() {
  const Status save_status = store_.Save();
  LOG_IF(WARNING, !save_status.ok() && !has_warned_) << save_status.message();
  has_warned_ = !save_status.ok();
}

Result<SharedPlan> Cudnn::ChoosePlan(const ConvShape& shape, ConvPass pass, TrialBuffers* buffers) {
  auto graph = cudnn::MakeGraph(target_, shape, pass);
  if (!graph.ok()) return graph.status();
  SharedPlan best_plan;
  float shortest_ms = 0;
  for (const auto heuristic : {cudnn::Heuristic::kFast, cudnn::Heuristic::kFallback}) {
    if (best_plan != nullptr) break;
    for (const cudnn::Descriptor& candidate :
         cudnn::FindCandidates(target_, *graph, shape, heuristic, kMaxCandidates)) {
      auto made_plan = cudnn::MakePlan(target_, candidate);
      if (!made_plan.ok()) continue;
      auto plan = std::make_shared<const cudnn::Plan>(std::move(*made_plan));
      CudnnPlan trial_plan(handle_, plan, shape, pass);
      if (!RunOnce(&trial_plan, buffers).ok()) continue;
      // The first measurement only warms up the GPU, whose clock rate is low when it is idle.
      if (best_plan == nullptr) (void)MeasureTimeMs(&trial_plan, buffers->data());
      const Result<float> time_ms = MeasureTimeMs(&trial_plan, buffers->data());
      if (!time_ms.ok() || (best_plan != nullptr && *time_ms >= shortest_ms)) continue;
      shortest_ms = *time_ms;
      best_plan = std::move(plan);
    }
  }
  if (best_plan == nullptr) return Status(Code::kBadJob, "no engine is suitable");
  return best_plan;
}

Status Cudnn::RunOnce(CudnnPlan* plan, TrialBuffers* buffers) {
  if (plan->workspace_bytes() > kMaxWorkspaceBytes)
    return Status(Code::kBadJob, "its workspace is too large");
  TERN_RETURN_IF_ERROR(buffers->SetWorkspace(plan->workspace_bytes()));
  TERN_RETURN_IF_ERROR(plan->Run(stream_, buffers->data()));
  return device::CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

// Times several runs of a short plan, because the time of a single run would mostly be that of its
// launch.
Result<float> Cudnn::MeasureTimeMs(CudnnPlan* plan, const ConvData& data) {
  const Result<float> one_run_ms = MeasureTimeMs(plan, data, 1);
  if (!one_run_ms.ok()) return one_run_ms;
  const auto runs = static_cast<int>(std::clamp(kMaxTimedMs / *one_run_ms, 1.0f, kMaxTimedRuns));
  return runs == 1 ? one_run_ms : MeasureTimeMs(plan, data, runs);
}

Result<float> Cudnn::MeasureTimeMs(CudnnPlan* plan, const ConvData& data, int runs) {
  struct Timer {
    Timer() { cudaEventCreate(&event); }
    ~Timer() { cudaEventDestroy(event); }
    cudaEvent_t event = nullptr;
  } begin, end;
  float total_ms = 0;
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaEventRecord(begin.event, stream_), "cudaEventRecord"));
  for (int run = 0; run < runs; ++run) TERN_RETURN_IF_ERROR(plan->Run(stream_, data));
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaEventRecord(end.event, stream_), "cudaEventRecord"));
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaEventSynchronize(end.event), "cudaEventSynchronize"));
  TERN_RETURN_IF_ERROR(device::CheckCuda(cudaEventElapsedTime(&total_ms, begin.event, end.event),
                                         "cudaEventElapsedTime"));
  return total_ms / static_cast<float>(runs);
}

}  // namespace

Result<std::unique_ptr<ConvLibrary>> MakeConvLibrary(kernels::DeviceStream stream) {
  auto library = std::make_unique<Cudnn>();
  TERN_RETURN_IF_ERROR(library->Initialize(stream));
  return MakeCublas(std::move(library));
}

}  // namespace tern::engine::cuda
