// The arenas of a net on a GPU. Internal to the engine.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "worker/device/device.h"

namespace tern::engine::cuda {

// An arena of the caller in host memory and its copy on the device, or an arena on the device.
struct MirroredArena {
  float* host_arena = nullptr;  // Null if the arena is on the device.
  size_t num_elements = 0;
  float* device_data = nullptr;  // The arena or its copy on the device.
  device::DeviceMemory memory;
  std::unique_ptr<device::PinnedRange> page_lock;

  float* device() const { return device_data; }
  size_t bytes() const { return num_elements * sizeof(float); }
  // Allocates the copy of an arena in host memory.
  Status Make(const float* arena, size_t elements) {
    host_arena = const_cast<float*>(arena);
    num_elements = elements;
    auto new_memory = device::AllocateDevice(bytes());
    if (!new_memory.ok()) return new_memory.status();
    memory = std::move(*new_memory);
    device_data = static_cast<float*>(memory.get());
    page_lock = std::make_unique<device::PinnedRange>(host_arena, bytes());
    return Ok();
  }
  // Uses an arena that is on the device.
  void UseDeviceArena(float* device_arena, size_t elements) {
    device_data = device_arena;
    num_elements = elements;
  }
};

// The frozen parameters, which stay on the device, and room for the gradients of those that are in
// a layer with trained ones.
class FrozenArena {
 public:
  Status Make(const float* frozen, size_t elements, bool is_training) {
    const size_t bytes = elements * sizeof(float);
    if (bytes == 0) return Ok();
    auto values = device::AllocateDevice(frozen, bytes);
    if (!values.ok()) return values.status();
    values_ = std::move(*values);
    auto gradients = device::AllocateDevice(is_training ? bytes : 0);
    if (!gradients.ok()) return gradients.status();
    gradients_ = std::move(*gradients);
    return Ok();
  }
  const float* values() const { return static_cast<const float*>(values_.get()); }
  float* gradients() const { return static_cast<float*>(gradients_.get()); }

 private:
  device::DeviceMemory values_, gradients_;
};

}  // namespace tern::engine::cuda
