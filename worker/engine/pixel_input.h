// Batches that come as bytes, on a GPU: two places for them, so that the next one is uploaded while
// a step uses this one, and the launch that makes images of them. Internal to the engine's
// *_cuda.cc files.
#pragma once

#include <array>
#include <memory>

#include "kernels/pixels.h"
#include "worker/engine/device.h"
#include "worker/engine/net.h"

namespace tern::engine::cuda {

class PixelInput {
 public:
  // kBadJob where the device has not the room. `ahead`: Stage will be called.
  static Result<std::unique_ptr<PixelInput>> Make(const kernels::PixelRule& rule,
                                                  const kernels::DeviceImages& images, bool ahead);

  // Begins to upload what will be given next, beside the net's stream. REQUIRES `ahead`, and that
  // all Launches so far are done.
  Status Stage(const Net::Feed& next);
  // Forgets what was staged; its memory is the caller's again.
  Status Unstage();
  // `step` says where the feed's batch is for what goes to the stream from now on.
  Status Give(const Stream& stream, const Net::Feed& feed, kernels::DeviceStep* step);
  // A cudaError_t.
  int Launch(kernels::DeviceStream stream, const kernels::DeviceStep* step,
             kernels::DeviceType type, void* images) const;

 private:
  struct Place {
    DeviceMemory bytes, draws;
  };
  PixelInput() = default;
  Status Upload(const Net::Feed& feed);

  kernels::DeviceImages images_;
  kernels::DevicePixelRule rule_;
  DeviceMemory channels_, moments_;
  std::array<Place, 2> places_;
  size_t next_ = 0, count_ = 1;  // of the places: where the next batch goes, and how many there are
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> arrived_;
  const uint8_t* staged_ = nullptr;  // the bytes that were
  uint64_t staged_step_ = 0;
};

}  // namespace tern::engine::cuda
