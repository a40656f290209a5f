// Convolutions by cuDNN: of its candidates for a shape the fastest one here, found once and kept in
// a file.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "worker/engine/conv_library.h"
#include "worker/engine/cublas.h"
#include "worker/engine/cudnn_graph.h"
#include "worker/engine/device.h"
#include "worker/engine/plan_store.h"

namespace tern::engine::cuda {
namespace {

constexpr size_t kMostCandidates = 8;
constexpr size_t kMostWorkspace = size_t{1} << 30;  // bytes
constexpr int kTimedRuns = 3;

using SharedHandle = std::shared_ptr<cudnnContext>;
using SharedPlan = std::shared_ptr<const cudnn::Plan>;

class CudnnPlan : public ConvPlan {
 public:
  CudnnPlan(SharedHandle handle, SharedPlan plan, const ConvShape& shape, ConvPass pass)
      : handle_(std::move(handle)), plan_(std::move(plan)), shape_(shape), pass_(pass) {}

  size_t workspace() const override { return plan_->workspace; }
  // On the stream of the handle, which is the net's. Data lie where they lay the last time.
  Status Run(kernels::DeviceStream, const ConvData& data) override {
    if (pack_ == nullptr || !IsWhereItWas(data)) {
      auto made = cudnn::MakeVariantPack(shape_, pass_, data);
      if (!made.ok()) return made.status();
      pack_ = std::move(*made);
      where_ = data;
    }
    return cudnn::Check(cudnnBackendExecute(handle_.get(), plan_->descriptor.get(), pack_.get()),
                        "cudnnBackendExecute");
  }

 private:
  bool IsWhereItWas(const ConvData& data) const {
    return data.x == where_.x && data.kernel == where_.kernel && data.y == where_.y &&
           data.bias == where_.bias && data.workspace == where_.workspace;
  }

  const SharedHandle handle_;  // plans that run outlive their library
  const SharedPlan plan_;
  const ConvShape shape_;
  const ConvPass pass_;
  cudnn::Descriptor pack_;
  ConvData where_;
};

// Places for a pass that only its time is asked of.
class Room {
 public:
  static Result<Room> Make(const ConvShape& shape) {
    const auto& [slide, groups, type, tf32, bias, relu] = shape;
    const size_t kernel = size_t{slide.out.c} * (slide.in.c / groups) * slide.window.rows.kernel *
                          slide.window.columns.kernel;
    const std::array<size_t, 4> elements = {slide.in.size(), kernel, slide.out.size(), slide.out.c};
    Room room;
    for (const size_t count : elements) {
      auto made = AllocateDevice(count * kernels::BytesOf(type));
      if (!made.ok()) return made.status();
      room.memory_.push_back(std::move(*made));
    }
    return room;
  }
  // With a workspace of its own.
  Status SetWorkspace(size_t bytes) {
    workspace_.reset();
    auto made = AllocateDevice(bytes);
    if (made.ok()) workspace_ = std::move(*made);
    return made.status();
  }
  ConvData data() const {
    return {memory_[0].get(), memory_[1].get(), memory_[2].get(), memory_[3].get(),
            workspace_.get()};
  }

 private:
  std::vector<DeviceMemory> memory_;
  DeviceMemory workspace_;
};

class Cudnn : public ConvLibrary {
 public:
  Cudnn() : store_(PlanStore::DefaultPath()) {}
  Status Open(kernels::DeviceStream stream);
  std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) override;

 private:
  std::string KeyOf(const ConvShape& shape, ConvPass pass) const;
  Result<cudnn::Plan> Choose(const ConvShape& shape, ConvPass pass);
  void Keep();
  // Milliseconds of the fastest of a few runs.
  Result<float> TimeOf(CudnnPlan* plan, const ConvData& data);

  SharedHandle handle_;
  cudnn::Target target_;
  kernels::DeviceStream stream_ = nullptr;
  std::string device_;
  PlanStore store_;
  bool warned_ = false;                      // that the file cannot be written
  std::map<std::string, SharedPlan> plans_;  // null: cuDNN has none
};

Status Cudnn::Open(kernels::DeviceStream stream) {
  cudnnHandle_t handle = nullptr;
  TERN_RETURN_IF_ERROR(cudnn::Check(cudnnCreate(&handle), "cudnnCreate"));
  handle_.reset(handle, &cudnnDestroy);
  TERN_RETURN_IF_ERROR(cudnn::Check(cudnnSetStream(handle, stream), "cudnnSetStream"));
  target_.handle = handle;
  stream_ = stream;
  cudaDeviceProp properties;
  TERN_RETURN_IF_ERROR(Check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties"));
  device_ = Cat(properties.name, ", cuDNN ", cudnnGetVersion());
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
    if (const auto stored = store_.Find(key)) {
      auto plan = cudnn::PlanFromJson(target_, *stored);
      if (plan.ok()) found->second = std::make_shared<const cudnn::Plan>(std::move(*plan));
    }
    if (found->second == nullptr) {
      auto chosen = Choose(shape, pass);
      if (chosen.ok()) {
        store_.Put(key, chosen->json);
        Keep();
        found->second = std::make_shared<const cudnn::Plan>(std::move(*chosen));
      } else {
        LOG(WARNING) << "cuDNN has nothing for " << key << " (" << chosen.status().message()
                     << "): our own loops do it, slowly";
      }
    }
  }
  if (found->second == nullptr) return MakeConvLoops()->Plan(shape, pass);
  return std::make_unique<CudnnPlan>(handle_, found->second, shape, pass);
}

// At once: a net has many shapes, and who stops it in between is to find them the next time.
void Cudnn::Keep() {
  const Status saved = store_.Save();
  LOG_IF(WARNING, !saved.ok() && !warned_) << saved.message();
  warned_ = !saved.ok();
}

Result<cudnn::Plan> Cudnn::Choose(const ConvShape& shape, ConvPass pass) {
  auto graph = cudnn::MakeGraph(target_, shape, pass);
  if (!graph.ok()) return graph.status();
  auto candidates = cudnn::FindCandidates(target_, *graph, shape, kMostCandidates);
  if (!candidates.ok()) return candidates.status();
  auto room = Room::Make(shape);
  if (!room.ok()) return room.status();
  Result<cudnn::Plan> best = Status(Code::kBadJob, "no engine suits");
  float shortest = 0;
  for (const cudnn::Descriptor& candidate : *candidates) {
    auto plan = cudnn::MakePlan(target_, candidate);
    if (!plan.ok() || plan->workspace > kMostWorkspace) continue;
    if (!room->SetWorkspace(plan->workspace).ok()) continue;
    auto shared = std::make_shared<cudnn::Plan>(std::move(*plan));
    CudnnPlan running(handle_, shared, shape, pass);
    const Result<float> time = TimeOf(&running, room->data());
    if (!time.ok()) cudaGetLastError();  // it is no error of the next call's
    if (!time.ok() || (best.ok() && *time >= shortest)) continue;
    shortest = *time;
    best = std::move(*shared);
  }
  return best;
}

Result<float> Cudnn::TimeOf(CudnnPlan* plan, const ConvData& data) {
  struct Timer {
    Timer() { cudaEventCreate(&event); }
    ~Timer() { cudaEventDestroy(event); }
    cudaEvent_t event = nullptr;
  } begin, end;
  TERN_RETURN_IF_ERROR(plan->Run(stream_, data));  // the first one is slow
  float shortest = 0;
  for (int run = 0; run < kTimedRuns; ++run) {
    float time = 0;
    TERN_RETURN_IF_ERROR(Check(cudaEventRecord(begin.event, stream_), "cudaEventRecord"));
    TERN_RETURN_IF_ERROR(plan->Run(stream_, data));
    TERN_RETURN_IF_ERROR(Check(cudaEventRecord(end.event, stream_), "cudaEventRecord"));
    TERN_RETURN_IF_ERROR(Check(cudaEventSynchronize(end.event), "cudaEventSynchronize"));
    TERN_RETURN_IF_ERROR(
        Check(cudaEventElapsedTime(&time, begin.event, end.event), "cudaEventElapsedTime"));
    shortest = run == 0 ? time : std::min(shortest, time);
  }
  return shortest;
}

}  // namespace

Result<std::unique_ptr<ConvLibrary>> MakeConvLibrary(kernels::DeviceStream stream) {
  auto library = std::make_unique<Cudnn>();
  TERN_RETURN_IF_ERROR(library->Open(stream));
  return MakeCublas(std::move(library));
}

}  // namespace tern::engine::cuda
