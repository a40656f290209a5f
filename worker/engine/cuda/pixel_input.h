// Input batches as bytes, on a GPU: two buffers, so that the next batch is uploaded while a step
// uses the current one, and the launch that converts bytes to images. Internal to the engine.
#pragma once

#include <array>
#include <memory>

#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"
#include "kernels/nn/pixels.h"
#include "worker/device/device.h"
#include "worker/engine/net.h"

namespace tern::engine::cuda {

class PixelInput {
 public:
  // kBadJob if the device has too little memory. `ahead`: whether Stage will be called.
  static Result<std::unique_ptr<PixelInput>> Make(const kernels::PixelRule& rule,
                                                  const kernels::DeviceImages& images, bool ahead);

  // Begins to upload the next batch, in parallel to the net's stream. REQUIRES `ahead`, and that
  // all Launches so far are done.
  Status Stage(const Net::Feed& next);
  // Drops the staged batch; the caller may change its memory again.
  Status Unstage();
  // Uploads the feed's batch, unless it is staged, and sets its addresses in *step.
  Status Prepare(const device::Stream& stream, const Net::Feed& feed, kernels::DeviceStep* step);
  // Returns a cudaError_t.
  int Launch(kernels::DeviceStream stream, const kernels::DeviceStep* step,
             kernels::DeviceType type, void* images) const;

 private:
  struct Buffer {
    device::DeviceMemory bytes, draws;
  };
  PixelInput() = default;
  Status Upload(const Net::Feed& feed);

  kernels::DeviceImages images_;
  kernels::DevicePixelRule rule_;
  device::DeviceMemory channels_, moments_;
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0, count_ = 1;  // the buffer for the next batch, and the number of buffers
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> arrived_;
  const uint8_t* staged_ = nullptr;  // the staged bytes
  uint64_t staged_step_ = 0;
};

}  // namespace tern::engine::cuda
