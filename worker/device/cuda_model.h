// What a GPU's nets see of a DeviceModel. Internal to worker/device and worker/engine.
#pragma once

#include <memory>

#include "worker/device/device.h"
#include "worker/device/device_model.h"

namespace tern::device {

class CudaModel : public DeviceModel {
 public:
  // The compute thread's stream. All its nets share it, so their work runs in order.
  virtual const std::shared_ptr<Stream>& stream() const = 0;
  virtual float* weights() const = 0;
  // The weights at which training nets take gradients: the global ones, or local weights.
  virtual float* point() const = 0;
  virtual float* gradients() const = 0;
};

}  // namespace tern::device
