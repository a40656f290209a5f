// The arrays of a model in GPU memory, and tables of its parts, grouped as kernels process them (by
// bucket, by chunk, all). Internal to worker/device.
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
  // Device pointer to an array of the algorithms with local weights; null if the layout does not
  // have it.
  float* LocalArena(DeviceModel::Local array) const;
  // Device pointer to the weights at which gradients are computed: the local weights w' if the
  // layout has them, else the weights W.
  float* Point() const;
  // Pairs of a host array and its device array; each has all elements of the model.
  std::vector<std::pair<float*, float*>> HostDevicePairs(const DeviceModel::Host& host) const;
  // Device pointers to the weights and the optimizer's state, for kernels.
  kernels::ModelArenas Arenas() const;
  // Device pointers to the gradients of the rounds that are kept; those of round r are at r modulo
  // the size. If only one round is kept: the gradients array itself.
  std::vector<const float*> GradientsByRound() const;

  Array<float> weights, gradients, average;
  std::vector<Array<float>> state_arrays;
  std::map<DeviceModel::Local, Array<float>> local;
  std::vector<Array<float>> retained_gradients;  // empty if only one round is kept at a time
  Groups buckets, chunks;
  Group all;      // all elements of the model, as one part
  Group tensors;  // all parts of all buckets; empty without local arrays
  MaxSizes max;   // maxima over all groups except `tensors`

 private:
  Status AllocateArenas(const DeviceModel::Layout& layout);
};

}  // namespace tern::device
