#include "client/train/replica.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "client/train/host_arenas.h"
#include "common/algorithm/facts.h"
#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/tensors/safetensors.h"
#include "models/graph/arena.h"

namespace tern::client {

namespace {

std::string PrefixOf(const update::Optimizer::StateArray& slot) {
  return "optimizer." + slot.name + ".";
}

}  // namespace

Result<std::unique_ptr<Replica>> Replica::Make(const setup::Setup& setup) {
  std::unique_ptr<Replica> replica(new Replica(setup));
  auto optimizer = update::MakeOptimizer(setup.job.train().optimizer(), setup.table.total);
  if (!optimizer.ok()) return optimizer.status();
  replica->optimizer_ = std::move(*optimizer);
  replica->arenas_ = std::make_unique<HostArenas>(setup, replica->host_values());
  return replica;
}

Replica::Replica(const setup::Setup& setup)
    : setup_(setup), parameters_(setup.table.total), gradients_(setup.table.total) {
  models::InitParameters(setup.table, setup.job.seed(), parameters_.data());
  statistics_.resize(setup.table.statistics_total);
  models::InitStatistics(setup.table, statistics_.data());
  mean_statistics_ = statistics_;
  if (!statistics_.empty()) {
    SaveAlso({"statistics", statistics_});
    SaveAlso({"mean_statistics", mean_statistics_});
  }
  if (algorithm::FactsOf(setup.job).own_point) point_ = parameters_;
  if (setup.job.evaluation().ema_decay() > 0) average_ = parameters_;
}

HostValues Replica::host_values() {
  return {parameters(), point(), gradients(), average_.empty() ? nullptr : average_.data(),
          optimizer_.get()};
}

Status Replica::MoveTo(std::unique_ptr<Arenas> arenas) {
  arenas_ = std::move(arenas);
  return Send();
}

void Replica::Average(size_t first, size_t n, uint64_t update) {
  UpdateAverage(setup_, parameters_.data(), first, n, update,
                average_.empty() ? nullptr : average_.data());
}

void Replica::ResetOptimizer() {
  for (const update::Optimizer::StateArray& slot : optimizer_->StateArrays())
    std::fill(slot.values.begin(), slot.values.end(), 0.f);
}

uint64_t Replica::Hash() const {
  return Digest(std::span(reinterpret_cast<const uint8_t*>(parameters_.data()),
                          parameters_.size() * sizeof(float)));
}

std::vector<tensors::TensorView> Replica::Views(const float* weights,
                                                const std::vector<const float*>& slots) {
  std::vector<tensors::TensorView> tensors = models::ViewArena(setup_.table, weights);
  const auto add = [&](const float* arena, const std::string& prefix) {
    for (tensors::TensorView& view : models::ViewArena(setup_.table, arena, prefix))
      tensors.push_back(std::move(view));
  };
  const std::vector<update::Optimizer::StateArray> named = optimizer_->StateArrays();
  for (size_t i = 0; i < slots.size(); ++i) add(slots[i], PrefixOf(named[i]));
  if (!average_.empty()) add(average_.data(), "average.");
  for (const SavedState::Array& array : also_)
    tensors.push_back({array.name, {array.values.size()}, array.values});
  return tensors;
}

std::vector<tensors::TensorView> Replica::Views() {
  std::vector<const float*> slots;
  for (const update::Optimizer::StateArray& slot : optimizer_->StateArrays())
    slots.push_back(slot.values.data());
  std::vector<tensors::TensorView> tensors = Views(parameters_.data(), slots);
  if (!point_.empty()) tensors.push_back({"local.point", {point_.size()}, point_});
  return tensors;
}

Bytes Replica::Save(uint64_t applied, const float* weights,
                    const std::vector<const float*>& slots) {
  return Bytes::Own(
      tensors::EncodeSafetensors(Views(weights, slots), {{"applied", std::to_string(applied)}}));
}

Bytes Replica::SaveState(uint64_t applied) {
  std::vector<const float*> slots;
  for (const update::Optimizer::StateArray& slot : optimizer_->StateArrays())
    slots.push_back(slot.values.data());
  return Save(applied, parameters_.data(), slots);
}

Bytes Replica::SaveState(uint64_t applied, const std::vector<std::vector<float>>& slots) {
  std::vector<const float*> arenas;
  for (const std::vector<float>& slot : slots) arenas.push_back(slot.data());
  return Save(applied, parameters_.data(), arenas);
}

Bytes Replica::SaveWeights(uint64_t applied, const float* weights) {
  return Save(applied, weights == nullptr ? parameters_.data() : weights, {});
}

namespace {

Status LoadAlso(const tensors::TensorFile& file, const SavedState::Array& array) {
  for (const tensors::Tensor& tensor : file.tensors) {
    if (tensor.name != array.name || tensor.values.size() != array.values.size()) continue;
    std::copy(tensor.values.begin(), tensor.values.end(), array.values.begin());
    return Ok();
  }
  return Status(Code::kBadData,
                Cat("there is no ", array.name, " of ", array.values.size(), " values"));
}

}  // namespace

Status Replica::LoadState(const Bytes& state) {
  Result<tensors::TensorFile> file = tensors::DecodeSafetensors(state.view());
  if (file.ok()) return Load(*file, false).Within("the state sent by another worker");
  return file.status().Within("the state sent by another worker");
}

Status Replica::LoadViews(const tensors::TensorFile& file) {
  TERN_RETURN_IF_ERROR(Load(file, true));
  return LoadPoint(file);
}

Status Replica::LoadPoint(const tensors::TensorFile& file) {
  return point_.empty() ? Ok() : LoadAlso(file, {"local.point", point_});
}

Status Replica::Load(const tensors::TensorFile& file, bool whole) {
  TERN_RETURN_IF_ERROR(LoadArenas(file, whole));
  return Send();
}

Status Replica::LoadArenas(const tensors::TensorFile& file, bool whole) {
  TERN_RETURN_IF_ERROR(models::LoadArena(file, setup_.table, parameters_.data()));
  for (const SavedState::Array& array : also_) TERN_RETURN_IF_ERROR(LoadAlso(file, array));
  const std::string& first = setup_.table.parameters[0].name;
  for (const update::Optimizer::StateArray& slot : optimizer_->StateArrays()) {
    const std::string name = PrefixOf(slot) + first;
    const bool here = std::any_of(file.tensors.begin(), file.tensors.end(),
                                  [&](const auto& tensor) { return tensor.name == name; });
    if (!here && !whole) {
      LOG(WARNING) << "the " << slot.name << " of this worker's optimizer starts afresh, from zero";
      std::fill(slot.values.begin(), slot.values.end(), 0.f);
      continue;
    }
    TERN_RETURN_IF_ERROR(models::LoadArena(file, setup_.table, slot.values.data(), PrefixOf(slot)));
  }
  if (average_.empty()) return Ok();
  return models::LoadArena(file, setup_.table, average_.data(), "average.");
}

uint64_t Replica::MaxStateBytes(const setup::Setup& setup) {
  constexpr uint64_t kArrays = 4;  // parameters, two of an optimizer, average
  return kArrays * setup.table.total * sizeof(float) +
         setup.plan.scalers_from * setup.plan.parts.size() * sizeof(float) +
         2 * setup.table.statistics_total * sizeof(float) +
         kArrays * setup.table.parameters.size() * 1024 + (1 << 20);
}

Status Replica::WriteWeights(const std::string& folder, uint64_t step) {
  TERN_RETURN_IF_ERROR(Bring());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  TERN_RETURN_IF_ERROR(WriteFile(folder + "/weights.safetensors", parameters_, step));
  if (average_.empty()) return Ok();
  return WriteFile(folder + "/weights_average.safetensors", average_, step);
}

Status Replica::WriteFile(const std::string& path, const Floats& arena, uint64_t step) const {
  std::vector<tensors::TensorView> tensors = models::ViewArena(setup_.table, arena.data());
  for (tensors::TensorView& view : models::ViewStatistics(setup_.table, mean_statistics_.data()))
    tensors.push_back(std::move(view));
  return tensors::WriteSafetensors(
      path, tensors,
      {{"job", setup_.job.name()}, {"step", std::to_string(step)}, {"format", "pt"}});
}

}  // namespace tern::client
