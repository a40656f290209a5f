// The part of a DeviceModel (the model's arrays on the GPU) that nets on the GPU use: its stream
// and its device pointers. Internal to worker/device and worker/engine.
#pragma once

#include <memory>

#include "worker/device/device.h"
#include "worker/device/device_model.h"

namespace tern::device {

class CudaModel : public DeviceModel {
 public:
  // The stream of the compute thread. All nets share it, so their work runs in order.
  virtual const std::shared_ptr<Stream>& stream() const = 0;
  virtual float* weights() const = 0;
  // The weights at which training computes gradients: weights(), or the worker's own local weights
  // if the algorithm has these.
  virtual float* point() const = 0;
  virtual float* gradients() const = 0;
  // Makes what is launched later on the stream of the thread that encodes wait for what the event's
  // last Record marked.
  virtual Status LetCoderWaitFor(const Event& event) = 0;
};

}  // namespace tern::device
