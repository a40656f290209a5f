#include "worker/device/model_memory.h"

namespace tern::device {

Status ModelMemory::Allocate(const DeviceModel::Layout& layout, Stream* stream) {
  TERN_RETURN_IF_ERROR(AllocateArenas(layout));
  for (const auto& [groups, parts] :
       {std::pair{&buckets, &layout.buckets}, std::pair{&chunks, &layout.chunks}}) {
    groups->resize(parts->size());
    for (size_t i = 0; i < parts->size(); ++i)
      TERN_RETURN_IF_ERROR((*groups)[i].Make((*parts)[i], stream));
  }
  TERN_RETURN_IF_ERROR(all_elements.Make({{.begin = 0, .count = layout.elements}}, stream));
  max_sizes = {all_elements.host_tiling.tiles.size(), 1};
  max_sizes.Include(buckets);
  max_sizes.Include(chunks);
  if (layout.local_arrays.empty()) return Ok();
  std::vector<kernels::Part> parts;
  for (const auto& bucket : layout.buckets) parts.insert(parts.end(), bucket.begin(), bucket.end());
  return all_parts.Make(parts, stream);
}

Status ModelMemory::AllocateArenas(const DeviceModel::Layout& layout) {
  std::vector<Array<float>*> arrays = {&weights, &gradients};
  if (layout.has_average) arrays.push_back(&average_arena);
  state_arrays.resize(layout.state_arrays);
  for (Array<float>& array : state_arrays) arrays.push_back(&array);
  for (const DeviceModel::LocalArray array : layout.local_arrays)
    arrays.push_back(&local_arenas[array]);
  if (layout.rounds > 1) retained_gradients.resize(layout.rounds);
  for (Array<float>& array : retained_gradients) arrays.push_back(&array);
  for (Array<float>* array : arrays) TERN_RETURN_IF_ERROR(array->Allocate(layout.elements));
  return Ok();
}

float* ModelMemory::LocalArena(DeviceModel::LocalArray array) const {
  const auto entry = local_arenas.find(array);
  return entry == local_arenas.end() ? nullptr : entry->second.get();
}

float* ModelMemory::Point() const {
  float* point = LocalArena(DeviceModel::LocalArray::kPoint);
  return point != nullptr ? point : weights.get();
}

std::vector<std::pair<float*, float*>> ModelMemory::HostDevicePairs(
    const DeviceModel::HostCopies& host) const {
  std::vector<std::pair<float*, float*>> pairs = {{host.weights, weights.get()}};
  for (size_t i = 0; i < state_arrays.size(); ++i)
    pairs.push_back({host.state_arrays[i], state_arrays[i].get()});
  if (average_arena.get() != nullptr) pairs.push_back({host.average, average_arena.get()});
  return pairs;
}

kernels::ModelArenas ModelMemory::Arenas() const {
  kernels::ModelArenas arenas{weights.get()};
  if (!state_arrays.empty()) arenas.first_moment = state_arrays[0].get();
  if (state_arrays.size() > 1) arenas.second_moment = state_arrays[1].get();
  return arenas;
}

std::vector<const float*> ModelMemory::GradientsByRound() const {
  std::vector<const float*> arenas;
  for (const Array<float>& array : retained_gradients) arenas.push_back(array.get());
  if (arenas.empty()) arenas.push_back(gradients.get());
  return arenas;
}

}  // namespace tern::device
