// What the host and the GPU tell each other in a step of a net: the step's values and the labels to
// the GPU, the losses back. Internal to the engine.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "kernels/nn/device_images.h"
#include "kernels/nn/rows.h"
#include "worker/device/device.h"
#include "worker/engine/net.h"
#include "worker/engine/softmax_loss.h"

namespace tern::engine::cuda {

class StepMemory {
 public:
  // For batches of at most `batch` samples.
  Status Allocate(size_t batch) {
    for (const auto& [memory, bytes] :
         {std::pair{&device_inputs_, kLabelsBegin + batch * sizeof(uint32_t)},
          std::pair{&device_losses_, batch * sizeof(kernels::DeviceLoss)}}) {
      auto new_memory = device::AllocateDevice(bytes);
      if (!new_memory.ok()) return new_memory.status();
      *memory = std::move(*new_memory);
    }
    for (const auto& [memory, bytes] :
         {std::pair{&host_inputs_, kLabelsBegin + batch * sizeof(uint32_t)},
          std::pair{&host_losses_, batch * sizeof(kernels::DeviceLoss)}}) {
      auto new_memory = device::AllocatePinned(bytes);
      if (!new_memory.ok()) return new_memory.status();
      *memory = std::move(*new_memory);
    }
    return Ok();
  }

  // On the device.
  const kernels::DeviceStep* step() const {
    return static_cast<const kernels::DeviceStep*>(device_inputs_.get());
  }
  const uint32_t* labels() const {
    return reinterpret_cast<const uint32_t*>(static_cast<std::byte*>(device_inputs_.get()) +
                                             kLabelsBegin);
  }
  kernels::DeviceLoss* losses() const {
    return static_cast<kernels::DeviceLoss*>(device_losses_.get());
  }

  // Copies the step's values and the labels to the device. REQUIRES that the copies of the upload
  // before are done.
  Status Upload(device::Stream& stream, const kernels::DeviceStep& step,
                std::span<const uint32_t> labels) {
    std::memcpy(host_inputs_.get(), &step, sizeof step);
    std::copy(labels.begin(), labels.end(),
              reinterpret_cast<uint32_t*>(host_inputs_.get() + kLabelsBegin));
    const size_t bytes = labels.empty() ? sizeof step : kLabelsBegin + labels.size_bytes();
    return stream.CopyIn(device_inputs_.get(), host_inputs_.get(), bytes);
  }
  // Copies the losses of the first `used` samples to the host, where AddLosses adds them when the
  // copy is done.
  Status DownloadLosses(device::Stream& stream, uint32_t used) {
    return stream.CopyOut(host_losses_.get(), losses(), used * sizeof(kernels::DeviceLoss));
  }
  // Adds the sums over these samples to *score unless it is null. Returns the mean loss.
  double AddLosses(uint32_t used, Score* score) const {
    const auto* losses = reinterpret_cast<const kernels::DeviceLoss*>(host_losses_.get());
    SoftmaxSums sums;
    for (uint32_t n = 0; n < used; ++n) sums.AddRow(losses[n].loss, losses[n].label_rank);
    if (score != nullptr) {
      score->loss += sums.loss;
      score->correct += sums.correct;
      score->among_five += sums.among_five;
      score->samples += used;
    }
    return sums.loss / used;
  }

 private:
  static constexpr size_t kLabelsBegin = 64;  // byte of the inputs at which the labels begin
  static_assert(sizeof(kernels::DeviceStep) <= kLabelsBegin);

  device::DeviceMemory device_inputs_, device_losses_;
  device::PinnedMemory host_inputs_, host_losses_;
};

}  // namespace tern::engine::cuda
