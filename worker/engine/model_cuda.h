// DeviceModel as the nets of a GPU see it. Internal to the engine.
#pragma once

#include <memory>

#include "worker/engine/device.h"
#include "worker/engine/device_model.h"

namespace tern::engine::cuda {

class CudaModel : public DeviceModel {
 public:
  // The compute thread's, of all its nets: what is given to it is in order.
  virtual const std::shared_ptr<Stream>& stream() const = 0;
  virtual float* weights() const = 0;
  virtual float* point() const = 0;  // where nets that train take their gradients: W, or w'
  virtual float* gradients() const = 0;
};

}  // namespace tern::engine::cuda
