#include "client/train/replica_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "models/graph/arena.h"

namespace tern::client {
namespace {

constexpr char kAveragePrefix[] = "average.";

std::string TensorNamePrefixOf(const update::Optimizer::StateArray& slot) {
  return "optimizer." + slot.name + ".";
}
std::string OuterTensorNamePrefixOf(const update::Optimizer::StateArray& slot) {
  return "optimizer.outer." + slot.name + ".";
}

// The arrays of the outer optimizer's state; none if the job has no outer optimizer.
std::vector<update::Optimizer::StateArray> OuterStateArraysOf(Replica& replica) {
  if (replica.outer_optimizer() == nullptr) return {};
  return replica.outer_optimizer()->StateArrays();
}

}  // namespace

ReplicaState::ReplicaState(const setup::Setup& setup, Replica& replica)
    : setup_(setup), replica_(replica) {
  if (replica.optimizer().counts_updates())
    AddOptionalArray({"optimizer.begins", replica.state_begins().floats()});
  if (replica.statistics().empty()) return;
  AddArray({"statistics", replica.statistics()});
  AddArray({"mean_statistics", replica.mean_statistics()});
}

std::vector<tensors::TensorView> ReplicaState::ViewTensors(const float* weights,
                                                           const std::vector<const float*>& slots) {
  std::vector<tensors::TensorView> tensors;
  const auto add_arena = [&](const float* arena, const std::string& prefix) {
    for (tensors::TensorView& view : models::ViewArena(setup_.table, arena, prefix))
      tensors.push_back(std::move(view));
  };
  if (replica_.holds_weights()) {
    add_arena(weights, "");
    const std::vector<update::Optimizer::StateArray> state_arrays =
        replica_.optimizer().StateArrays();
    for (size_t i = 0; i < slots.size(); ++i)
      add_arena(slots[i], TensorNamePrefixOf(state_arrays[i]));
    for (const update::Optimizer::StateArray& slot : OuterStateArraysOf(replica_))
      add_arena(slot.values.data(), OuterTensorNamePrefixOf(slot));
    if (!replica_.average().empty()) add_arena(replica_.average().data(), kAveragePrefix);
  }
  for (const auto* arrays : {&extra_arrays_, &optional_arrays_}) {
    for (const SavedState::Array& array : *arrays)
      tensors.push_back({array.name, {array.values.size()}, array.values});
  }
  return tensors;
}

std::vector<tensors::TensorView> ReplicaState::ViewTensors() {
  std::vector<tensors::TensorView> tensors = ViewTensors(replica_.parameters(), OptimizerSlots());
  if (replica_.has_point()) tensors.push_back({"local.point", {setup_.table.total}, Point()});
  return tensors;
}

std::vector<const float*> ReplicaState::OptimizerSlots() {
  std::vector<const float*> slots;
  for (const update::Optimizer::StateArray& slot : replica_.optimizer().StateArrays())
    slots.push_back(slot.values.data());
  return slots;
}

Bytes ReplicaState::Encode(uint64_t applied, const float* weights,
                           const std::vector<const float*>& slots) {
  return Bytes::Own(tensors::EncodeSafetensors(ViewTensors(weights, slots),
                                               {{"applied", std::to_string(applied)}}));
}

Bytes ReplicaState::Save(uint64_t applied) {
  return Encode(applied, replica_.parameters(), OptimizerSlots());
}

Bytes ReplicaState::Save(uint64_t applied, const std::vector<std::vector<float>>& slots) {
  std::vector<const float*> slot_arrays;
  for (const std::vector<float>& slot : slots) slot_arrays.push_back(slot.data());
  return Encode(applied, replica_.parameters(), slot_arrays);
}

Bytes ReplicaState::SaveWeights(uint64_t applied, const float* weights) {
  return Encode(applied, weights == nullptr ? replica_.parameters() : weights, {});
}

namespace {

Status LoadArray(const tensors::TensorFile& file, const SavedState::Array& array) {
  for (const tensors::Tensor& tensor : file.tensors) {
    if (tensor.name != array.name || tensor.values.size() != array.values.size()) continue;
    std::copy(tensor.values.begin(), tensor.values.end(), array.values.begin());
    return Ok();
  }
  return Status(Code::kBadData,
                Cat("there is no ", array.name, " of ", array.values.size(), " values"));
}

}  // namespace

Status ReplicaState::Load(const Bytes& state) {
  Result<tensors::TensorFile> file = tensors::DecodeSafetensors(state.view());
  if (file.ok())
    return LoadTensors(*file, Source::kWorker).Within("the state sent by another worker");
  return file.status().Within("the state sent by another worker");
}

Status ReplicaState::LoadCheckpointTensors(const tensors::TensorFile& file) {
  TERN_RETURN_IF_ERROR(LoadTensors(file, Source::kCheckpoint));
  return LoadPoint(file);
}

Status ReplicaState::LoadPoint(const tensors::TensorFile& file) {
  return !replica_.has_point() ? Ok() : LoadArray(file, {"local.point", Point()});
}

Status ReplicaState::LoadTensors(const tensors::TensorFile& file, Source source) {
  TERN_RETURN_IF_ERROR(LoadArrays(file, source));
  return replica_.CopyFromHost();
}

Status ReplicaState::LoadArrays(const tensors::TensorFile& file, Source source) {
  for (const SavedState::Array& array : extra_arrays_) TERN_RETURN_IF_ERROR(LoadArray(file, array));
  for (const SavedState::Array& array : optional_arrays_) {
    if (!LoadArray(file, array).ok()) std::fill(array.values.begin(), array.values.end(), 0.f);
  }
  if (!replica_.holds_weights()) return Ok();
  TERN_RETURN_IF_ERROR(models::LoadArena(file, setup_.table, replica_.parameters()));
  for (const update::Optimizer::StateArray& slot : replica_.optimizer().StateArrays()) {
    const std::string prefix = TensorNamePrefixOf(slot);
    if (!HasArena(file, prefix)) replica_.state_begins().Reset();
    TERN_RETURN_IF_ERROR(LoadSlot(file, slot, prefix, "this worker's optimizer", true));
  }
  const bool is_checkpoint = source == Source::kCheckpoint;
  for (const update::Optimizer::StateArray& slot : OuterStateArraysOf(replica_))
    TERN_RETURN_IF_ERROR(
        LoadSlot(file, slot, OuterTensorNamePrefixOf(slot), "the outer optimizer", is_checkpoint));
  const std::span<float> average = replica_.average();
  if (average.empty()) return Ok();
  if (!is_checkpoint || HasArena(file, kAveragePrefix))
    return models::LoadArena(file, setup_.table, average.data(), kAveragePrefix);
  LOG(WARNING) << "there is no moving average, so it begins at the weights";
  std::copy_n(replica_.parameters(), average.size(), average.begin());
  return Ok();
}

Status ReplicaState::LoadSlot(const tensors::TensorFile& file,
                              const update::Optimizer::StateArray& slot, const std::string& prefix,
                              const std::string& owner, bool may_lack) {
  if (!may_lack || HasArena(file, prefix))
    return models::LoadArena(file, setup_.table, slot.values.data(), prefix);
  LOG(WARNING) << "the " << slot.name << " of " << owner << " is reset to zero";
  std::fill(slot.values.begin(), slot.values.end(), 0.f);
  return Ok();
}

bool ReplicaState::HasArena(const tensors::TensorFile& file, const std::string& prefix) const {
  const std::string name = prefix + setup_.table.parameters[0].name;
  return std::any_of(file.tensors.begin(), file.tensors.end(),
                     [&](const tensors::Tensor& tensor) { return tensor.name == name; });
}

uint64_t ReplicaState::MaxBytes(const setup::Setup& setup) {
  // The parameters, at most two arrays of an optimizer's state, one of an outer optimizer's, and
  // the moving average.
  constexpr uint64_t kArrays = 5;
  return kArrays * setup.table.total * sizeof(float) +
         setup.plan.scaler_age_rounds * setup.plan.parts.size() * sizeof(float) +
         2 * setup.table.statistics_total * sizeof(float) +
         kArrays * setup.table.parameters.size() * 1024 + (1 << 20);
}

Status ReplicaState::WriteWeights(const std::string& folder, uint64_t step) {
  TERN_RETURN_IF_ERROR(replica_.CopyToHost());
  (void)Disk().CreateFolders(folder);  // If that fails, the writes below fail, too.
  TERN_RETURN_IF_ERROR(WriteFile(folder + "/weights.safetensors", replica_.parameters(), step));
  if (replica_.average().empty()) return Ok();
  return WriteFile(folder + "/weights_average.safetensors", replica_.average().data(), step);
}

Status ReplicaState::WriteEvaluatedWeights(const std::string& path, uint64_t step,
                                           const tensors::Metadata& metadata) {
  return WriteFile(path, replica_.evaluated_weights(), step, metadata);
}

Status ReplicaState::WriteFile(const std::string& path, const float* arena, uint64_t step,
                               tensors::Metadata metadata) {
  std::vector<tensors::TensorView> tensors = models::ViewArena(setup_.table, arena);
  for (tensors::TensorView& view : models::ViewFrozen(setup_.table, replica_.frozen()))
    tensors.push_back(std::move(view));
  for (tensors::TensorView& view :
       models::ViewStatistics(setup_.table, replica_.mean_statistics().data()))
    tensors.push_back(std::move(view));
  metadata.insert({{"job", setup_.job.name()}, {"step", std::to_string(step)}, {"format", "pt"}});
  return tensors::WriteSafetensors(path, tensors, metadata);
}

}  // namespace tern::client
