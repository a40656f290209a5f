// The arrays of a model in GPU memory, and the groups of parts (ranges of one tensor) that a kernel
// processes at once: those of a bucket (tensors whose gradients become ready together), of a chunk
// (a piece of a bucket that is encoded by itself), or of the whole model. Internal to
// worker/device.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "kernels/update/arrays.h"
#include "worker/device/device_model.h"
#include "worker/device/parts.h"

namespace tern::device {

struct ModelMemory {
  // Allocates all arrays, and copies the tables to the device on `stream`.
  Status Allocate(const DeviceModel::Layout& layout, Stream* stream);
  // Device pointer to one of the additional arrays of algorithms with local weights; null if the
  // layout does not have that array.
  float* LocalArena(DeviceModel::LocalArray array) const;
  // Device pointer to the weights at which gradients are computed: the local weights w' if the
  // layout has them, else the weights W.
  float* Point() const;
  // Pairs of a host array and the device array of which it is a copy. Each array has all elements
  // of the model.
  std::vector<std::pair<float*, float*>> HostDevicePairs(const DeviceModel::HostCopies& host) const;
  // Device pointers to the weights and the optimizer's state, as kernels take them.
  kernels::ModelArenas Arenas() const;
  // Device pointers to the arrays with gradients to encode. The gradients of round r (the r-th
  // exchange with the servers) are in the array with index r modulo the number of arrays. If only
  // one round is in progress at a time, the only array is `gradients`.
  std::vector<const float*> GradientsByRound() const;

  Array<float> weights, gradients, average_arena;
  std::vector<Array<float>> state_arrays;
  std::map<DeviceModel::LocalArray, Array<float>> local_arenas;
  std::vector<Array<float>> retained_gradients;  // Empty if Layout::rounds is 1.
  Groups buckets, chunks;
  Group all_elements;  // All elements of the model, as a single part.
  Group all_parts;     // All parts of all buckets; empty without arrays of local weights.
  MaxSizes max_sizes;  // The maximum sizes over all groups except `all_parts`.

 private:
  Status AllocateArenas(const DeviceModel::Layout& layout);
};

}  // namespace tern::device
