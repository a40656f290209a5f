// A net on a GPU as a list of kernel launches, which use buffers in one block of device memory (the
// arena). When the net is planned, layers append their launches (layer.h); then the program only
// runs them. Internal to the engine. The order of calls:
//
//   { NewValue, NewArray, NewLastingArray, InPlaceOrNew, BeginLayer, Call, CallOperation,
//     ConvertWeights, MarkRead }*
//   -> EndForward -> { the same, MarkReady }* -> Bind -> { RunForward -> RunBackward? }*
//
// The list is divided into segments. If parameters and gradients are in host memory, the parameters
// that a forward segment reads are copied to the device before the segment, and the gradients that
// a backward segment completes are copied to the host after the segment. The launches of a segment
// are captured as a CUDA graph on its second run, and replayed from then on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/weights.h"
#include "models/graph/shapes.h"
#include "worker/device/device.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/net.h"

namespace tern::engine::cuda {

// A buffer of the arena: a tensor [batch, h, w, c] of the program's type, or another array.
struct Value {
  models::ImageDims image;  // The shape of an image of the tensor; unset for another array.
  int buffer = -1;          // The number of the buffer.
  // For a gradient: whether several launches read it, so that none of them may overwrite it.
  bool is_shared = false;
  // The number of the buffer with the sums of the tensor's channels (ConvData::sums); -1 if the
  // launch that computes the tensor does not add them up.
  int sums_buffer = -1;
  // If the launch that reads the tensor is to take max(0, scale x + shift) in its place
  // (ConvShape::normalizes): the number of the buffer with ConvData::norm; else -1.
  int norm_buffer = -1;
  // If the launch that computes the gradient of that is to go on to g
  // (ConvShape::takes_norm_gradient): the number of the buffer with ConvData::norm_arrays; else -1.
  int norm_arrays_buffer = -1;
};
// The sums of the channels of a tensor that has them, and what its reader needs for the norm.
inline Value SumsOf(const Value& tensor) { return {{}, tensor.sums_buffer}; }
inline Value NormOf(const Value& tensor) { return {{}, tensor.norm_buffer}; }
inline Value NormArraysOf(const Value& tensor) { return {{}, tensor.norm_arrays_buffer}; }

class Program {
 public:
  // The addresses of the values that were passed to Call, in the same order.
  using Data = std::vector<void*>;
  // A function that launches kernels. Returns a cudaError_t.
  using Kernel = std::function<int(kernels::DeviceStream stream, const Data& data)>;
  // A function like Kernel that returns a Status instead.
  using Operation = std::function<Status(kernels::DeviceStream stream, const Data& data)>;
  // The parameters with the numbers [begin, end).
  struct Range {
    uint32_t begin = 0, end = 0;
  };
  // Functions of the program's owner that copy ranges of parameters and gradients.
  struct Transfers {
    // Launches the copy of parameters to the device, before the launches that read them.
    std::function<Status(const Range& range)> upload_parameters;
    // Launches the copy of gradients to the host, after the launches that compute them.
    std::function<Status(const Range& range)> download_gradients;
    // Waits until the gradients are final and, if they are in host memory, copied there.
    std::function<Status(const Range& range)> wait_for_gradients;
    // Makes the launches of who takes the gradients wait for them. Null if the host takes them.
    std::function<Status(const Range& range)> hand_over = nullptr;
  };

  Program(uint32_t batch, kernels::DeviceType type) : batch_(batch), type_(type) {}

  uint32_t batch() const { return batch_; }
  kernels::DeviceType type() const { return type_; }  // The type of stored images.
  // The contents of new values and arrays are unspecified.
  Value NewValue(const models::ImageDims& image);
  Value NewArray(size_t bytes);
  // Returns a new array that no other buffer overlaps, so that its contents stay intact from one
  // run to the next. All its bytes are zero before the first run.
  Value NewLastingArray(size_t bytes);
  // Returns where an element-wise launch on `value` writes its result: a new buffer if `value` is
  // shared, else `value` itself.
  Value InPlaceOrNew(const Value& value) { return value.is_shared ? NewValue(value.image) : value; }
  // Sets what error messages call the layer whose launches are appended next.
  void BeginLayer(const std::string& where) { where_ = where; }
  // Call and CallOperation append a launch, to which the addresses of the values are passed. `what`
  // names the launch in error messages.
  void Call(const char* what, const std::vector<Value>& values, Kernel kernel);
  void CallOperation(const char* what, const std::vector<Value>& values, Operation work);
  // Says that the launches appended next read `kernel`, which is weights.parameters in the layout
  // and the type of convolutions (weights.h). In the backward pass: says that the launches so far
  // have set `kernel`, and weights.parameters takes the gradient. All weights of a segment are
  // converted in one launch. `weights.kernel` is not used.
  void ConvertWeights(const kernels::WeightArray& weights, const Value& kernel);
  // MarkRead says that launches appended later read parameter number p; MarkReady, that the
  // gradient of parameter p is final after the launches so far.
  void MarkRead(uint32_t p) { AddMark(&Step::read_parameter, p); }
  void MarkReady(uint32_t p) { AddMark(&Step::ready_parameter, p); }
  // Says that the forward pass is complete; launches appended later belong to the backward pass.
  void EndForward() { backward_begin_ = steps_.size(); }
  // Allocates the arena, and assigns addresses to all values. parameter_bytes[p] is the size of
  // parameter p; `step` is device memory. kBadJob if the device has too little memory.
  Status Bind(const std::vector<size_t>& parameter_bytes, const kernels::DeviceStep* step);

  // Launches the forward pass. Calls `need(p)`, if set, before parameter p is copied or read; ends
  // the pass without an error if `need` returns false. Returns whether the pass is complete.
  Result<bool> LaunchForward(const device::Stream& stream, const Transfers& transfers,
                             const Need& need);
  Status LaunchBackward(const device::Stream& stream, const Transfers& transfers);
  // Adds the numbers of segments, of those that have a captured graph by now, and of their nodes.
  void CountGraphs(Planning* planning) const;
  // After LaunchBackward: waits for the gradients. Calls `ready(p)`, if set, for each parameter p
  // when the gradient of p is final and, if gradients are in host memory, has been copied there. If
  // the pass has one segment and transfers.hand_over is set, calls it and `ready` before it waits.
  Status AwaitBackward(const Transfers& transfers, const std::function<void(uint32_t p)>& ready);

 private:
  // A launch, a conversion of weights or a mark. In a mark, `read_parameter` or `ready_parameter`
  // is the number of a parameter.
  struct Step {
    std::vector<Value> values;
    Operation work;
    kernels::WeightArray weights;  // Has no weights if the step is not a conversion.
    Data data;                     // Set by Bind.
    int64_t read_parameter = -1, ready_parameter = -1;
  };
  struct Segment {
    bool is_forward = false;
    size_t begin = 0, end = 0;  // The segment consists of steps [begin, end).
    Range parameters;           // The parameters that it reads, or whose gradients it completes.
    size_t bytes = 0;           // The bytes of these parameters.
    // The weights that a forward segment converts before its steps, and a backward segment after
    // them; and the memory of the table.
    kernels::WeightTable weights;
    device::DeviceMemory weight_arrays, weight_blocks;
    uint64_t runs = 0;  // How often the segment has run.
    // The captured launches, from the second run on; null if CUDA cannot capture them.
    std::unique_ptr<device::Graph> graph;
    // Adds parameter p, of `num_bytes` bytes, to `parameters` and `bytes`.
    void AddParameter(uint32_t p, size_t num_bytes);
  };
  void AddMark(int64_t Step::*mark, uint32_t p);
  void Append(const std::vector<Value>& values, Operation work);
  // Divides the steps of both passes into segments.
  void CutPasses(const std::vector<size_t>& parameter_bytes);
  // Says in the memory plan how long a segment uses the kernels that it converts.
  void RecordConversions(const Segment& segment);
  Status MakeWeightTable(Segment* segment);
  Status Run(const device::Stream& stream, Segment* segment);
  Status Launch(const device::Stream& stream, const Segment& segment);

  const uint32_t batch_;
  const kernels::DeviceType type_;
  std::string where_ = "the net";
  MemoryPlan plan_;
  struct LastingArray {
    int buffer = -1;
    size_t bytes = 0;
  };
  std::vector<LastingArray> lasting_arrays_;
  std::vector<Step> steps_;
  size_t backward_begin_ = 0;  // The number of the first step of the backward pass.
  std::vector<Segment> forward_segments_, backward_segments_;
  const kernels::DeviceStep* device_step_ = nullptr;
  device::DeviceMemory arena_;
};

}  // namespace tern::engine::cuda
