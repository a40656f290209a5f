// The arrays of a model on a GPU, and its parts in the groups in which kernels process them.
// Internal to worker/device.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "kernels/update/arrays.h"
#include "worker/device/device_model.h"
#include "worker/device/parts.h"

namespace tern::device {

struct ModelMemory {
  // `stream` copies the groups to the device.
  Status Allocate(const DeviceModel::Layout& layout, Stream* stream);
  // Null if the layout does not have this array.
  float* LocalArena(DeviceModel::Local array) const;
  // The weights at which training nets take gradients: w' if there is one, or W.
  float* Point() const;
  // Pairs of the host's arrays and their device arrays, each of all elements.
  std::vector<std::pair<float*, float*>> HostDevicePairs(const DeviceModel::Host& host) const;
  // The weights and the optimizer's state.
  kernels::ModelArenas Arenas() const;
  // By round, modulo their number: the retained gradients, or the gradients themselves.
  std::vector<const float*> GradientsByRound() const;

  Array<float> weights, gradients, average;
  std::vector<Array<float>> state_arrays;
  std::map<DeviceModel::Local, Array<float>> local;
  std::vector<Array<float>> retained_gradients;  // none if one round is retained at a time
  Groups buckets, chunks;
  Group all;      // all elements, as one part
  Group tensors;  // all parts of all buckets, if there are local arrays
  MaxSizes max;   // over the groups but `tensors`

 private:
  Status AllocateArenas(const DeviceModel::Layout& layout);
};

}  // namespace tern::device
