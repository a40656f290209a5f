// A net as a flat list of launches over one arena of the device, as worker/engine/cpu/program.h is
// one of steps on the CPU. Layers append launches once (layer.h); then the program only runs.
// Internal to the engine.
//
//   { NewValue, Call, Reads }*  -> EndForward -> { the same, Ready }* -> Bind
//   -> { RunForward -> RunBackward? }*
//
// It runs in segments: a few megabytes of parameters are fetched before each segment, or of
// gradients copied back after it. A segment's launches are captured on its second run and replayed
// from then on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/device_images.h"
#include "models/graph/shapes.h"
#include "worker/device/device.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/net.h"

namespace tern::engine::cuda {

// [batch, h, w, c] of the program's type in a buffer of the arena, or an array in another form.
struct Value {
  models::ImageDims image;
  int buffer = -1;
  bool shared = false;  // a gradient with several readers: must not be written in place
};

class Program {
 public:
  // The addresses of the values passed to Call, in order.
  using Data = std::vector<void*>;
  // Returns a cudaError_t.
  using Kernel = std::function<int(kernels::DeviceStream stream, const Data& data)>;
  // The same for work other than a CUDA call.
  using Work = std::function<Status(kernels::DeviceStream stream, const Data& data)>;
  // Parameters [begin, end).
  struct Range {
    uint32_t begin = 0, end = 0;
  };
  // How parameters are fetched and gradients copied back, in stream order.
  struct Traffic {
    std::function<Status(const Range&range)> fetch, bring;
    std::function<Status(const Range& range)> arrived;  // waits for copied gradients
  };

  Program(uint32_t batch, kernels::DeviceType type) : batch_(batch), type_(type) {}

  uint32_t batch() const { return batch_; }
  kernels::DeviceType type() const { return type_; }  // of images
  Value NewValue(const models::ImageDims& image);
  Value NewArray(size_t bytes);
  // Where an element-wise launch writes its result: in place, unless `value` is shared.
  Value InPlace(const Value& value) { return value.shared ? NewValue(value.image) : value; }
  // Calls from now on belong to this layer, for messages.
  void At(const std::string& where) { where_ = where; }
  // `what` names the launch in its error.
  void Call(const char* what, const std::vector<Value>& values, Kernel kernel);
  void Do(const char* what, const std::vector<Value>& values, Work work);
  // Parameter p is read from here on; its gradient is final when this is reached.
  void Reads(uint32_t p) { AddMark(&Step::reads, p); }
  void Ready(uint32_t p) { AddMark(&Step::ready, p); }
  void EndForward() { backward_ = steps_.size(); }
  // Lays out the arena. `sizes`: bytes, by parameter. kBadJob if the device has not enough memory.
  Status Bind(const std::vector<size_t>& sizes);

  // Launches everything; `need` may end the pass, which is not an error.
  Status RunForward(const device::Stream& stream, const Traffic& traffic, const Need& need);
  // The same for backward, then calls ready(p) as the gradients arrive.
  Status RunBackward(const device::Stream& stream, const Traffic& traffic,
                     const std::function<void(uint32_t p)>& ready);

 private:
  struct Step {
    std::vector<Value> values;
    Work work;
    Data data;                       // since Bind
    int64_t reads = -1, ready = -1;  // instead
  };
  struct Segment {
    size_t begin = 0, end = 0;  // steps
    Range parameters;           // read, or ready
    size_t bytes = 0;           // of those
    uint64_t runs = 0;
    std::unique_ptr<device::Graph> graph;  // from the second run on, if CUDA can capture it
    void Add(uint32_t p, size_t size);
  };
  void AddMark(int64_t Step::*mark, uint32_t p);
  void Append(const std::vector<Value>& values, Work work);
  void CutForward(const std::vector<size_t>& sizes);
  void CutBackward(const std::vector<size_t>& sizes);
  Status Run(const device::Stream& stream, Segment* segment);
  Status Launch(const device::Stream& stream, const Segment& segment);

  const uint32_t batch_;
  const kernels::DeviceType type_;
  std::string where_ = "the net";
  MemoryPlan plan_;
  std::vector<Step> steps_;
  size_t backward_ = 0;  // first step of the backward pass
  std::vector<Segment> forward_segments_, backward_segments_;
  device::DeviceMemory arena_;
};

}  // namespace tern::engine::cuda
