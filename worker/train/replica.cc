#include "worker/train/replica.h"

#include <filesystem>
#include <string>
#include <utility>

#include "common/base/hash.h"
#include "common/update/schedule.h"
#include "kernels/optimizer.h"
#include "models/safetensors.h"

namespace tern::train {

Result<std::unique_ptr<Replica>> Replica::Make(const setup::Setup& setup) {
  std::unique_ptr<Replica> replica(new Replica(setup));
  auto optimizer = update::MakeOptimizer(setup.job.train().optimizer(), setup.table.total);
  if (!optimizer.ok()) return optimizer.status();
  replica->optimizer_ = std::move(*optimizer);
  return replica;
}

Replica::Replica(const setup::Setup& setup)
    : setup_(setup), parameters_(setup.table.total), gradients_(setup.table.total) {
  models::InitParameters(setup.table, setup.job.seed(), parameters_.data());
  if (setup.job.evaluation().ema_decay() > 0) average_ = parameters_;
}

void Replica::Update(const float* g, size_t first, size_t n, float learning_rate, float decay,
                     uint64_t round) {
  optimizer_->Update(parameters_.data() + first, g, first, n, learning_rate, decay);
  if (average_.empty()) return;
  const double keep = update::EmaDecay(setup_.job.evaluation().ema_decay(), round - 1);
  kernels::EmaUpdate(average_.data() + first, parameters_.data() + first, n,
                     static_cast<float>(1 - keep));
}

uint64_t Replica::Hash() const {
  return Digest(std::span(reinterpret_cast<const uint8_t*>(parameters_.data()),
                          parameters_.size() * sizeof(float)));
}

Bytes Replica::SaveState(uint64_t applied) {
  std::vector<models::TensorView> tensors = models::ViewArena(setup_.table, parameters_.data());
  const auto add = [&](const float* arena, const std::string& prefix) {
    for (models::TensorView& view : models::ViewArena(setup_.table, arena, prefix))
      tensors.push_back(std::move(view));
  };
  for (const update::Optimizer::Slot& slot : optimizer_->Slots())
    add(slot.values.data(), slot.name + ".");
  if (!average_.empty()) add(average_.data(), "average.");
  return Bytes::Own(models::EncodeSafetensors(tensors, {{"applied", std::to_string(applied)}}));
}

Status Replica::LoadState(const Bytes& state) {
  Result<models::TensorFile> file = models::DecodeSafetensors(state.view());
  if (!file.ok()) return file.status().Within("the state sent by another worker");
  TERN_RETURN_IF_ERROR(models::LoadArena(*file, setup_.table, parameters_.data()));
  for (const update::Optimizer::Slot& slot : optimizer_->Slots()) {
    TERN_RETURN_IF_ERROR(
        models::LoadArena(*file, setup_.table, slot.values.data(), slot.name + "."));
  }
  if (average_.empty()) return Ok();
  return models::LoadArena(*file, setup_.table, average_.data(), "average.");
}

uint64_t Replica::MaxStateBytes(const setup::Setup& setup) {
  constexpr uint64_t kArrays = 4;  // parameters, two of an optimizer, average
  return kArrays * setup.table.total * sizeof(float) +
         kArrays * setup.table.parameters.size() * 1024 + (1 << 20);
}

Status Replica::WriteWeights(const std::string& folder, uint64_t round) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const models::Metadata metadata = {
      {"job", setup_.job.name()}, {"round", std::to_string(round)}, {"format", "pt"}};
  TERN_RETURN_IF_ERROR(models::WriteSafetensors(folder + "/weights.safetensors",
                                                models::ViewArena(setup_.table, parameters_.data()),
                                                metadata));
  if (average_.empty()) return Ok();
  return models::WriteSafetensors(folder + "/weights_average.safetensors",
                                  models::ViewArena(setup_.table, average_.data()), metadata);
}

}  // namespace tern::train
