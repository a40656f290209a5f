// Convolutions by cuDNN. For each shape, times cuDNN's candidates on this GPU once, and keeps the
// fastest in a file.
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
constexpr size_t kMaxWorkspace = size_t{1} << 30;  // bytes
// At most 8 timed runs or 8 ms per candidate, at least one run. A net may have a thousand
// candidates.
constexpr float kTimedRuns = 8, kTimedMs = 8;

using SharedHandle = std::shared_ptr<cudnnContext>;
using SharedPlan = std::shared_ptr<const cudnn::Plan>;

class CudnnPlan : public ConvPlan {
 public:
  CudnnPlan(SharedHandle handle, SharedPlan plan, const ConvShape& shape, ConvPass pass)
      : handle_(std::move(handle)), plan_(std::move(plan)), shape_(shape), pass_(pass) {}

  size_t workspace() const override { return plan_->workspace; }
  // Runs on the stream of the handle, which is the net's. Reuses cuDNN's list of addresses (its
  // variant pack) if the addresses are those of the last run.
  Status Run(kernels::DeviceStream, const ConvData& data) override {
    if (pack_ == nullptr || !HasSameAddresses(data)) {
      auto made = cudnn::MakeVariantPack(shape_, pass_, data);
      if (!made.ok()) return made.status();
      pack_ = std::move(*made);
      last_data_ = data;
    }
    const Status ran =
        cudnn::Check(cudnnBackendExecute(handle_.get(), plan_->descriptor.get(), pack_.get()),
                     "cudnnBackendExecute");
    // Clears CUDA's last error, so that the next call does not report it.
    if (!ran.ok()) cudaGetLastError();
    return ran;
  }

 private:
  bool HasSameAddresses(const ConvData& data) const {
    return data.x == last_data_.x && data.kernel == last_data_.kernel && data.y == last_data_.y &&
           data.bias == last_data_.bias && data.workspace == last_data_.workspace;
  }

  const SharedHandle handle_;  // shared: a plan may outlive the ConvLibrary that made it
  const SharedPlan plan_;
  const ConvShape shape_;
  const ConvPass pass_;
  cudnn::Descriptor pack_;
  ConvData last_data_;
};

// Buffers for a trial run of a pass.
class TrialBuffers {
 public:
  static Result<TrialBuffers> Make(const ConvShape& shape) {
    const auto& [slide, groups, type, tf32, bias, relu] = shape;
    const size_t kernel = size_t{slide.out.c} * (slide.in.c / groups) * slide.window.rows.kernel *
                          slide.window.columns.kernel;
    const std::array<size_t, 4> elements = {slide.in.size(), kernel, slide.out.size(), slide.out.c};
    TrialBuffers buffers;
    for (const size_t count : elements) {
      auto made = device::AllocateDevice(count * kernels::BytesOf(type));
      if (!made.ok()) return made.status();
      buffers.memory_.push_back(std::move(*made));
    }
    return buffers;
  }
  // Replaces the workspace.
  Status SetWorkspace(size_t bytes) {
    workspace_.reset();
    auto made = device::AllocateDevice(bytes);
    if (made.ok()) workspace_ = std::move(*made);
    return made.status();
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
  Status Open(kernels::DeviceStream stream);
  std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) override;

 private:
  std::string KeyOf(const ConvShape& shape, ConvPass pass) const;
  Result<SharedPlan> FindPlan(const std::string& key, const ConvShape& shape, ConvPass pass);
  Result<SharedPlan> ChoosePlan(const ConvShape& shape, ConvPass pass, TrialBuffers* buffers);
  void SaveStore();
  // Runs the plan once before it is timed, because the first run is slow.
  Status RunOnce(CudnnPlan* plan, TrialBuffers* buffers);
  // Milliseconds per run.
  Result<float> TimeOf(CudnnPlan* plan, const ConvData& data);
  Result<float> TimeOf(CudnnPlan* plan, const ConvData& data, int runs);

  SharedHandle handle_;
  cudnn::Target target_;
  kernels::DeviceStream stream_ = nullptr;
  std::string device_;
  PlanStore store_;
  bool warned_ = false;  // a warning has been logged that the file cannot be written
  std::map<std::string, SharedPlan> plans_;  // null: cuDNN has no plan
};

Status Cudnn::Open(kernels::DeviceStream stream) {
  cudnnHandle_t handle = nullptr;
  TERN_RETURN_IF_ERROR(cudnn::Check(cudnnCreate(&handle), "cudnnCreate"));
  handle_.reset(handle, &cudnnDestroy);
  TERN_RETURN_IF_ERROR(cudnn::Check(cudnnSetStream(handle, stream), "cudnnSetStream"));
  target_.handle = handle;
  stream_ = stream;
  cudaDeviceProp properties;
  TERN_RETURN_IF_ERROR(
      device::Check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties"));
  int processors = 0, driver = 0;
  TERN_RETURN_IF_ERROR(
      device::Check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0),
                    "cudaDeviceGetAttribute"));
  TERN_RETURN_IF_ERROR(device::Check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
  device_ = Cat(properties.name, " of ", processors, " SMs, driver ", driver, ", cuDNN ",
                cudnnGetVersion());
  return Ok();
}

std::string Cudnn::KeyOf(const ConvShape& shape, ConvPass pass) const {
  const auto& [in, out, window] = shape.slide;
  const auto axis = [](const kernels::DeviceAxis& a) {
    return Cat(a.kernel, "/", a.stride, "/", a.dilation, "/", a.pad);
  };
  constexpr const char* kPasses[] = {"forward", "data", "weights"};
  constexpr const char* kTypes[] = {"fp32", "bf16", "fp16"};
  const bool forward = pass == ConvPass::kForward;
  return Cat(device_, ", ", kPasses[static_cast<int>(pass)], " ",
             shape.tf32 ? "tf32" : kTypes[static_cast<int>(shape.type)], " ", in.n, "x", in.h, "x",
             in.w, "x", in.c, " to ", out.h, "x", out.w, "x", out.c, " by ", axis(window.rows), " ",
             axis(window.columns), " in ", shape.groups, forward && shape.bias ? ", bias" : "",
             forward && shape.relu ? ", relu" : "");
}

std::unique_ptr<ConvPlan> Cudnn::Plan(const ConvShape& shape, ConvPass pass) {
  const std::string key = KeyOf(shape, pass);
  const auto [found, unknown] = plans_.try_emplace(key);
  if (unknown) {
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

// Returns the stored plan if a trial run of it succeeds here, else chooses a new one. Without the
// trial, a stored plan that fails would end every run that uses it.
Result<SharedPlan> Cudnn::FindPlan(const std::string& key, const ConvShape& shape, ConvPass pass) {
  auto buffers = TrialBuffers::Make(shape);
  if (!buffers.ok()) return buffers.status();
  if (const auto stored = store_.Find(key)) {
    auto loaded = cudnn::PlanFromJson(target_, *stored);
    Status ran = loaded.status();
    if (loaded.ok()) {
      auto plan = std::make_shared<const cudnn::Plan>(std::move(*loaded));
      CudnnPlan running(handle_, plan, shape, pass);
      ran = RunOnce(&running, &*buffers);
      if (ran.ok()) return SharedPlan(std::move(plan));
    }
    LOG(WARNING) << "the stored plan for " << key << " does not run (" << ran.message()
                 << "); another plan is chosen";
  }
  auto chosen = ChoosePlan(shape, pass, &*buffers);
  if (!chosen.ok()) return chosen;
  store_.Put(key, (*chosen)->json);
  SaveStore();
  return chosen;
}

// Saves at once: a net has many shapes, and a run that is interrupted should not lose them.
void Cudnn::SaveStore() {
  const Status saved = store_.Save();
  LOG_IF(WARNING, !saved.ok() && !warned_) << saved.message();
  warned_ = !saved.ok();
}

Result<SharedPlan> Cudnn::ChoosePlan(const ConvShape& shape, ConvPass pass, TrialBuffers* buffers) {
  auto graph = cudnn::MakeGraph(target_, shape, pass);
  if (!graph.ok()) return graph.status();
  SharedPlan best;
  float shortest = 0;
  for (const auto heuristic : {cudnn::Heuristic::kFast, cudnn::Heuristic::kFallback}) {
    if (best != nullptr) break;
    for (const cudnn::Descriptor& candidate :
         cudnn::FindCandidates(target_, *graph, shape, heuristic, kMaxCandidates)) {
      auto made = cudnn::MakePlan(target_, candidate);
      if (!made.ok()) continue;
      auto plan = std::make_shared<const cudnn::Plan>(std::move(*made));
      CudnnPlan running(handle_, plan, shape, pass);
      if (!RunOnce(&running, buffers).ok()) continue;
      // Warms up the GPU, whose clock is low at rest.
      if (best == nullptr) (void)TimeOf(&running, buffers->data());
      const Result<float> time = TimeOf(&running, buffers->data());
      if (!time.ok() || (best != nullptr && *time >= shortest)) continue;
      shortest = *time;
      best = std::move(plan);
    }
  }
  if (best == nullptr) return Status(Code::kBadJob, "no engine is suitable");
  return best;
}

Status Cudnn::RunOnce(CudnnPlan* plan, TrialBuffers* buffers) {
  if (plan->workspace() > kMaxWorkspace) return Status(Code::kBadJob, "its workspace is too large");
  TERN_RETURN_IF_ERROR(buffers->SetWorkspace(plan->workspace()));
  TERN_RETURN_IF_ERROR(plan->Run(stream_, buffers->data()));
  return device::Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

// Times several runs of a short plan; a single one would mostly measure its launch.
Result<float> Cudnn::TimeOf(CudnnPlan* plan, const ConvData& data) {
  const Result<float> one = TimeOf(plan, data, 1);
  if (!one.ok()) return one;
  const auto runs = static_cast<int>(std::clamp(kTimedMs / *one, 1.0f, kTimedRuns));
  return runs == 1 ? one : TimeOf(plan, data, runs);
}

Result<float> Cudnn::TimeOf(CudnnPlan* plan, const ConvData& data, int runs) {
  struct Timer {
    Timer() { cudaEventCreate(&event); }
    ~Timer() { cudaEventDestroy(event); }
    cudaEvent_t event = nullptr;
  } begin, end;
  float time = 0;
  TERN_RETURN_IF_ERROR(device::Check(cudaEventRecord(begin.event, stream_), "cudaEventRecord"));
  for (int run = 0; run < runs; ++run) TERN_RETURN_IF_ERROR(plan->Run(stream_, data));
  TERN_RETURN_IF_ERROR(device::Check(cudaEventRecord(end.event, stream_), "cudaEventRecord"));
  TERN_RETURN_IF_ERROR(device::Check(cudaEventSynchronize(end.event), "cudaEventSynchronize"));
  TERN_RETURN_IF_ERROR(
      device::Check(cudaEventElapsedTime(&time, begin.event, end.event), "cudaEventElapsedTime"));
  return time / static_cast<float>(runs);
}

}  // namespace

Result<std::unique_ptr<ConvLibrary>> MakeConvLibrary(kernels::DeviceStream stream) {
  auto library = std::make_unique<Cudnn>();
  TERN_RETURN_IF_ERROR(library->Open(stream));
  return MakeCublas(std::move(library));
}

}  // namespace tern::engine::cuda
