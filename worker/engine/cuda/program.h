// A net as a flat list of launches over one arena of the device, like the list of steps in
// worker/engine/cpu/program.h. Layers append launches once (layer.h); then the program only runs.
// Internal to the engine.
//
//   { NewValue, Call, MarkRead }*  -> EndForward -> { the same, MarkReady }* -> Bind
//   -> { RunForward -> RunBackward? }*
//
// It runs in segments: parameters, a few megabytes at a time, are copied to the device before each
// segment, or gradients back to the host after it. A segment's launches are captured on its second
// run and replayed from then on.
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

// A [batch, h, w, c] tensor of the program's type in a buffer of the arena, or an array of another
// form.
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
  // A Kernel that returns a Status instead.
  using Operation = std::function<Status(kernels::DeviceStream stream, const Data& data)>;
  // Parameters [begin, end).
  struct Range {
    uint32_t begin = 0, end = 0;
  };
  // How parameters are fetched (`fetch`) and gradients copied back (`bring`), in stream order.
  struct Transfers {
    std::function<Status(const Range&range)> fetch, bring;
    std::function<Status(const Range& range)> arrived;  // waits for copied gradients
  };

  Program(uint32_t batch, kernels::DeviceType type) : batch_(batch), type_(type) {}

  uint32_t batch() const { return batch_; }
  kernels::DeviceType type() const { return type_; }  // of images
  Value NewValue(const models::ImageDims& image);
  Value NewArray(size_t bytes);
  // The target of an element-wise launch: in place, unless `value` is shared.
  Value InPlace(const Value& value) { return value.shared ? NewValue(value.image) : value; }
  // Names the layer of the following calls, for messages.
  void BeginLayer(const std::string& where) { where_ = where; }
  // `what` names the launch in error messages.
  void Call(const char* what, const std::vector<Value>& values, Kernel kernel);
  void CallOperation(const char* what, const std::vector<Value>& values, Operation work);
  // MarkRead: later launches read parameter p. MarkReady: the gradient of parameter p is final
  // after the launches so far.
  void MarkRead(uint32_t p) { AddMark(&Step::reads, p); }
  void MarkReady(uint32_t p) { AddMark(&Step::ready, p); }
  void EndForward() { backward_ = steps_.size(); }
  // Lays out the arena. `sizes`: bytes, by parameter. kBadJob if the device has too little memory.
  Status Bind(const std::vector<size_t>& sizes);

  // Launches all forward segments; `need` may end the pass, which is not an error.
  Status RunForward(const device::Stream& stream, const Transfers& transfers, const Need& need);
  // The same for the backward pass, then calls ready(p) as the gradients arrive.
  Status RunBackward(const device::Stream& stream, const Transfers& transfers,
                     const std::function<void(uint32_t p)>& ready);

 private:
  struct Step {
    std::vector<Value> values;
    Operation work;
    Data data;                       // set by Bind
    int64_t reads = -1, ready = -1;  // a mark instead of a launch
  };
  struct Segment {
    size_t begin = 0, end = 0;  // steps
    Range parameters;           // that are read, or whose gradients are ready
    size_t bytes = 0;           // of those parameters
    uint64_t runs = 0;
    // The captured launches, from the second run on; null if CUDA cannot capture them.
    std::unique_ptr<device::Graph> graph;
    void Add(uint32_t p, size_t size);
  };
  void AddMark(int64_t Step::*mark, uint32_t p);
  void Append(const std::vector<Value>& values, Operation work);
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
