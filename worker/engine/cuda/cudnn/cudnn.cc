// Computes convolutions by cuDNN. For each shape, measures the time of the plans that cuDNN
// recommends on this GPU, and stores the fastest plan in a file, so that later runs need not
// measure again.
#include <cuda_runtime.h>

#include <map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"
#include "worker/device/device.h"
#include "worker/engine/cuda/conv_library.h"
#include "worker/engine/cuda/cudnn/candidates.h"
#include "worker/engine/cuda/cudnn/cublas.h"
#include "worker/engine/cuda/cudnn/graph.h"
#include "worker/engine/cuda/cudnn/operations.h"
#include "worker/engine/cuda/cudnn/plan_store.h"
#include "worker/engine/cuda/cudnn/trial.h"
#include "worker/engine/cuda/cudnn/vendor.h"

namespace tern::engine::cuda {
namespace {

constexpr size_t kMaxCandidates = 8;

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
    if (variant_pack_ == nullptr || data != last_data_) {
      auto variant_pack = cudnn::MakeVariantPack(shape_, pass_, data);
      if (!variant_pack.ok()) return variant_pack.status();
      variant_pack_ = std::move(*variant_pack);
      last_data_ = data;
    }
    const Status run_status = cudnn::CheckCudnn(
        TheCudnn().BackendExecute(handle_.get(), plan_->descriptor.get(), variant_pack_.get()),
        "cudnnBackendExecute");
    // Clears CUDA's last error, so that the next call of CUDA does not report it.
    if (!run_status.ok()) cudaGetLastError();
    return run_status;
  }

 private:
  const SharedHandle handle_;  // Shared, because a CudnnPlan may outlive the library that made it.
  const SharedPlan plan_;
  const ConvShape shape_;
  const ConvPass pass_;
  cudnn::Descriptor variant_pack_;
  ConvData last_data_;
};

class CudnnLibrary : public ConvLibrary {
 public:
  explicit CudnnLibrary(Planning* planning)
      : planning_(planning), store_(PlanStore::DefaultPath()) {}
  ~CudnnLibrary() override {
    const Status close_status = store_.Close();
    LOG_IF(WARNING, !close_status.ok()) << close_status.message();
  }
  Status Initialize(kernels::DeviceStream stream);
  std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) override;

 private:
  // `key` is the key of the plan in the file: the device, the versions, the pass and the shape.
  Result<SharedPlan> FindPlan(const std::string& key, const ConvShape& shape, ConvPass pass);
  Result<SharedPlan> ChoosePlan(const ConvShape& shape, ConvPass pass, cudnn::Trial* trial);
  Planning* const planning_;
  SharedHandle handle_;
  cudnn::Target target_;
  kernels::DeviceStream stream_ = nullptr;
  std::string device_text_;
  PlanStore store_;
  // The plans made so far, by key; null if cuDNN has no plan for a key.
  std::map<std::string, SharedPlan> plans_;
};

Status CudnnLibrary::Initialize(kernels::DeviceStream stream) {
  cudnnHandle_t handle = nullptr;
  TERN_RETURN_IF_ERROR(cudnn::CheckCudnn(TheCudnn().Create(&handle), "cudnnCreate"));
  handle_.reset(handle, TheCudnn().Destroy);
  TERN_RETURN_IF_ERROR(cudnn::CheckCudnn(TheCudnn().SetStream(handle, stream), "cudnnSetStream"));
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
                     ", cuDNN ", TheCudnn().GetVersion());
  return Ok();
}

std::unique_ptr<ConvPlan> CudnnLibrary::Plan(const ConvShape& shape, ConvPass pass) {
  const std::string key = Cat(device_text_, ", ", DescribePass(shape, pass));
  const auto [found, is_new] = plans_.try_emplace(key);
  if (is_new) {
    const Time begin = Now();
    auto plan = FindPlan(key, shape, pass);
    planning_->plan_seconds += Seconds(Now() - begin);
    if (plan.ok()) {
      found->second = std::move(*plan);
    } else {
      LOG_IF(WARNING, !HelpsNorm(shape, pass))
          << "cuDNN has no plan for " << key << " (" << plan.status().message()
          << "); slow loops of our own replace it";
    }
  }
  if (found->second == nullptr)
    return HelpsNorm(shape, pass) ? nullptr : MakeConvLoops(planning_)->Plan(shape, pass);
  return std::make_unique<CudnnPlan>(handle_, found->second, shape, pass);
}

// Returns the plan that is stored in the file if a trial run of it succeeds, else chooses a new
// plan. Stores it, unless there was too little memory for one that may be faster. Without the trial
// run, a stored plan that fails would end every training run that uses it.
Result<SharedPlan> CudnnLibrary::FindPlan(const std::string& key, const ConvShape& shape,
                                          ConvPass pass) {
  // The trial's check of unequal padding needs sums that are exact in any order.
  if (TakesNormGradient(shape, pass) && cudnn::HasUnequalPadding(shape.slide))
    return Status(Code::kBadJob, "unequal padding");
  const auto trial = cudnn::Trial::Make(stream_, shape, pass);
  if (!trial.ok()) return trial.status();
  if (const auto stored_json = store_.Find(key)) {
    auto loaded_plan = cudnn::PlanFromJson(target_, *stored_json);
    Status trial_status = loaded_plan.status();
    if (loaded_plan.ok()) {
      auto plan = std::make_shared<const cudnn::Plan>(std::move(*loaded_plan));
      CudnnPlan trial_plan(handle_, plan, shape, pass);
      trial_status = (*trial)->Run(&trial_plan);
      if (trial_status.ok()) {
        ++planning_->plans_loaded;
        return SharedPlan(std::move(plan));
      }
    }
    LOG(WARNING) << "the stored plan for " << key << " does not run (" << trial_status.message()
                 << "); another plan is chosen";
  }
  auto chosen_plan = ChoosePlan(shape, pass, trial->get());
  if (!chosen_plan.ok()) return chosen_plan;
  ++planning_->plans_chosen;
  if ((*trial)->lacked_memory())
    store_.KeepPlan(key, (*chosen_plan)->json);
  else
    store_.PutPlan(key, (*chosen_plan)->json);
  return chosen_plan;
}

Result<SharedPlan> CudnnLibrary::ChoosePlan(const ConvShape& shape, ConvPass pass,
                                            cudnn::Trial* trial) {
  auto graph = cudnn::MakeGraph(target_, shape, pass);
  if (!graph.ok()) return graph.status();
  Result<SharedPlan> chosen_plan = Status(Code::kBadJob, "no engine is suitable");
  for (const auto heuristic : {cudnn::Heuristic::kFast, cudnn::Heuristic::kFallback}) {
    std::vector<SharedPlan> plans;
    std::vector<std::unique_ptr<CudnnPlan>> trial_plans;
    std::vector<ConvPlan*> plans_to_time;
    for (const cudnn::Descriptor& candidate :
         cudnn::FindCandidates(target_, *graph, shape, pass, heuristic, kMaxCandidates)) {
      auto made_plan = cudnn::MakePlan(target_, candidate);
      if (!made_plan.ok()) continue;
      plans.push_back(std::make_shared<const cudnn::Plan>(std::move(*made_plan)));
      trial_plans.push_back(std::make_unique<CudnnPlan>(handle_, plans.back(), shape, pass));
      plans_to_time.push_back(trial_plans.back().get());
    }
    const Result<size_t> fastest = trial->FastestOf(plans_to_time);
    if (fastest.ok()) return plans[*fastest];
    chosen_plan = fastest.status();
  }
  return chosen_plan;
}

}  // namespace

Result<std::unique_ptr<ConvLibrary>> MakeConvLibrary(kernels::DeviceStream stream,
                                                     Planning* planning) {
  TERN_RETURN_IF_ERROR(OpenVendorLibraries());
  auto library = std::make_unique<CudnnLibrary>(planning);
  TERN_RETURN_IF_ERROR(library->Initialize(stream));
  return MakeCublas(WithDepthwise(std::move(library)));
}

std::string ConvLibraryName() {
  return OpenVendorLibraries().ok() ? Cat("cuDNN ", TheCudnn().GetVersion())
                                    : "cuDNN that is not on this machine";
}

}  // namespace tern::engine::cuda
