// A net as a flat list of launches over one arena of the device, as program_cpu.h's is of steps on
// the CPU. Layers append launches once (layer_cuda.h); then the program only runs. Internal to the
// engine.
//
//   { NewValue, Call, Reads }*  -> EndForward -> { the same, Ready }* -> Bind
//   -> { RunForward -> RunBackward? }*
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device_layers.h"
#include "models/shapes.h"
#include "worker/engine/device.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/net.h"

namespace tern::engine::cuda {

// [batch, h, w, c] of the program's type in a buffer of the arena, or whatever its maker says.
struct Value {
  models::ImageDims image;
  int buffer = -1;
  bool shared = false;  // a gradient that others read too: not to be written in place
};

class Program {
 public:
  // The address of each value that a launch has named, in order.
  using Data = std::vector<void*>;
  // A cudaError_t.
  using Launch = std::function<int(kernels::DeviceStream stream, const Data& data)>;
  // The same, of what is no CUDA call.
  using Work = std::function<Status(kernels::DeviceStream stream, const Data& data)>;
  // What parameters are fetched from, and gradients brought to, in launches' order.
  struct Traffic {
    std::function<Status(uint32_t p)> fetch, bring;
    std::function<Status(uint32_t p)> arrived;  // waits for what was brought
  };

  Program(uint32_t batch, kernels::DeviceType type) : batch_(batch), type_(type) {}

  uint32_t batch() const { return batch_; }
  kernels::DeviceType type() const { return type_; }  // of images
  Value NewValue(const models::ImageDims& image);
  Value NewArray(size_t bytes);
  // Where the result of an element-wise launch may go: there, unless others read it too.
  Value InPlace(const Value& value) { return value.shared ? NewValue(value.image) : value; }
  // What is called from now on belongs to this layer, say.
  void At(const std::string& where) { where_ = where; }
  // `what` names the launch where it fails.
  void Call(const char* what, const std::vector<Value>& values, Launch launch);
  void Do(const char* what, const std::vector<Value>& values, Work work);
  // Parameter p is read from here on; its gradient is final when this is reached.
  void Reads(uint32_t p) { AddMark(&Step::reads, p); }
  void Ready(uint32_t p) { AddMark(&Step::ready, p); }
  void EndForward() { backward_ = steps_.size(); }
  // Lays out the arena. kBadJob where the device has not the room.
  Status Bind();

  // Launches it all; `need` may end it, which is no error.
  Status RunForward(const Stream& stream, const Traffic& traffic, const Need& need);
  // The same, then ready(p) as the gradients arrive.
  Status RunBackward(const Stream& stream, const Traffic& traffic,
                     const std::function<void(uint32_t p)>& ready);

 private:
  struct Step {
    std::vector<Value> values;
    Work work;
    Data data;                       // since Bind
    int64_t reads = -1, ready = -1;  // instead
  };
  void AddMark(int64_t Step::*mark, uint32_t p);
  void Append(const std::vector<Value>& values, Work work);

  const uint32_t batch_;
  const kernels::DeviceType type_;
  std::string where_ = "the net";
  MemoryPlan plan_;
  std::vector<Step> steps_;
  size_t backward_ = 0;
  DeviceMemory arena_;
};

}  // namespace tern::engine::cuda
