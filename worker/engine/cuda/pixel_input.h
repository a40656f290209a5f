// Uploads batches of images as bytes to a GPU, and launches their conversion to the net's input. In
// training there are two buffers, so that the next batch is uploaded while a step computes with the
// current one. Internal to the engine.
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
  // `rule` is the conversion, and `images` the shape of a batch. `uploads_ahead`: whether Stage
  // will be called. kBadJob if the device has too little memory.
  static Result<std::unique_ptr<PixelInput>> Make(const kernels::PixelRule& rule,
                                                  const kernels::DeviceImages& images,
                                                  bool uploads_ahead);

  // Begins to upload the next batch, on upload_stream_. REQUIRES `uploads_ahead`, and that all
  // launches so far are done on the device.
  Status Stage(const Net::Feed& next);
  // Cancels the last Stage. When this returns, the caller may change the memory of the staged
  // batch.
  Status Unstage();
  // Uploads the batch of `feed` if Stage has not done so. Makes `stream` wait for the upload, and
  // writes the addresses on the device to *step.
  Status Prepare(const device::Stream& stream, const Net::Feed& feed, kernels::DeviceStep* step);
  // Launches the conversion to `images`, with `stored_channels` channels a pixel, of the batch
  // whose addresses are in *step. `step` and `images` point to device memory. Returns a
  // cudaError_t.
  int Launch(kernels::DeviceStream stream, const kernels::DeviceStep* step,
             uint32_t stored_channels, kernels::DeviceType type, void* images) const;

 private:
  // A batch on the device: the bytes of its images, and the random numbers of their conversion.
  struct Buffer {
    device::DeviceMemory bytes, draws;
  };
  PixelInput() = default;
  Status Upload(const Net::Feed& feed);

  kernels::DeviceImages images_;
  kernels::DevicePixelRule rule_;
  device::DeviceMemory channels_, moments_;  // The rule's channel scales, and workspace.
  std::array<Buffer, 2> buffers_;
  size_t next_buffer_ = 0;                         // The number of the buffer for the next batch.
  size_t num_buffers_ = 1;                         // The number of buffers, 1 or 2.
  std::unique_ptr<device::Stream> upload_stream_;  // For uploads only.
  std::unique_ptr<device::Event> upload_done_;     // Recorded after the last upload.
  const uint8_t* staged_bytes_ = nullptr;  // The host's bytes that Stage uploads; null if none.
  uint64_t staged_step_ = 0;               // The step of the batch that Stage uploaded.
};

}  // namespace tern::engine::cuda
