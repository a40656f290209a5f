// The arenas of a net on a GPU. Internal to the engine.
#pragma once

#include <cstddef>
#include <memory>

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

}  // namespace tern::engine::cuda
