// Runs the engine on weights and batches from PyTorch, for the scripts in this folder.
//
//   torch_probe follow NET.json WEIGHTS BATCHES OUT RATE MOMENTUM
//       trains a step on each of BATCHES's images [steps, batch, C, H, W] and labels [steps,
//       batch]; OUT has the loss of each step, and the weights and statistics after the last
//   torch_probe scores NET.json WEIGHTS BATCHES OUT
//       OUT has the scores of images [n, C, H, W], in evaluation
//
// All files but the net's are safetensors.
#include <google/protobuf/util/json_util.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/tensors/safetensors.h"
#include "kernels/update/optimizer.h"
#include "models/graph/arena.h"
#include "models/graph/shapes.h"
#include "models/models.h"
#include "worker/engine/net.h"

namespace tern::engine {
namespace {

struct Probe {
  pb::NetDef net;
  models::ParameterTable table;
  std::vector<float> parameters, statistics;
};

Result<Probe> Load(const std::string& net_path, const std::string& weights_path) {
  std::ifstream file(net_path);
  const std::string json((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  pb::Model model;
  if (!google::protobuf::util::JsonStringToMessage(json, model.mutable_net()).ok())
    return Status(Code::kBadData, net_path + " is no NetDef in JSON");
  auto net = models::BuildNet(model, model.net().input(), model.net().classes());
  if (!net.ok()) return net.status();
  auto table = models::MakeParameterTable(*net);
  if (!table.ok()) return table.status();
  const auto weights = tensors::ReadSafetensors(weights_path);
  if (!weights.ok()) return weights.status();
  Probe probe{*net, *table, std::vector<float>(table->total),
              std::vector<float>(table->statistics_total)};
  TERN_RETURN_IF_ERROR(models::LoadArena(*weights, *table, probe.parameters.data()));
  TERN_RETURN_IF_ERROR(models::LoadStatistics(*weights, *table, probe.statistics.data()));
  return probe;
}

struct Batches {
  std::vector<float> images;
  std::vector<uint32_t> labels;  // empty, or one per image
  uint64_t count = 0, size = 0;  // number of batches, and images per batch
};

Result<Batches> ReadBatches(const std::string& path) {
  const auto file = tensors::ReadSafetensors(path);
  if (!file.ok()) return file.status();
  Batches batches;
  for (const tensors::Tensor& tensor : file->tensors) {
    if (tensor.name == "labels") {
      for (const float label : tensor.values)
        batches.labels.push_back(static_cast<uint32_t>(label));
      continue;
    }
    batches.images = tensor.values;
    const bool many = tensor.shape.size() == 5;
    batches.count = many ? tensor.shape[0] : 1;
    batches.size = tensor.shape[many ? 1 : 0];
  }
  return batches;
}

Status Follow(Probe probe, const Batches& batches, const std::string& out, float rate,
              float momentum) {
  std::vector<float> gradients(probe.table.total), velocity(probe.table.total), losses;
  auto net = Net::Make(probe.net, {.batch = static_cast<uint32_t>(batches.size)},
                       {probe.parameters.data(), gradients.data(), probe.statistics.data()});
  if (!net.ok()) return net.status();
  const uint64_t pixels = batches.images.size() / batches.count;
  for (uint64_t step = 0; step < batches.count; ++step) {
    const Net::Feed feed{{batches.images.data() + step * pixels, pixels},
                         {batches.labels.data() + step * batches.size, batches.size},
                         static_cast<uint32_t>(batches.size),
                         step + 1};
    losses.push_back(static_cast<float>((*net)->Forward(feed, nullptr)));
    (*net)->Backward(nullptr);
    kernels::MomentumUpdate(probe.parameters.data(), velocity.data(), gradients.data(),
                            probe.table.total, rate, momentum, 0);
  }
  std::vector<tensors::TensorView> tensors = {{"losses", {losses.size()}, losses}};
  for (auto& view : models::ViewArena(probe.table, probe.parameters.data()))
    tensors.push_back(view);
  for (auto& view : models::ViewStatistics(probe.table, probe.statistics.data()))
    tensors.push_back(view);
  return tensors::WriteSafetensors(out, tensors, {});
}

Status Scores(Probe probe, const Batches& batches, const std::string& out) {
  const auto size = static_cast<uint32_t>(batches.size);
  auto net = Net::Make(probe.net, {.batch = size, .training = false},
                       {probe.parameters.data(), nullptr, probe.statistics.data()});
  if (!net.ok()) return net.status();
  const uint32_t classes = probe.net.classes();
  const std::vector<uint32_t> labels(size);
  std::vector<float> scores(size_t{size} * classes);
  (*net)->Forward({batches.images, labels, size, 0, scores}, nullptr);
  return tensors::WriteSafetensors(out, {{"scores", {size, classes}, scores}}, {});
}

Status Run(const std::vector<std::string>& words) {
  const bool follow = words.size() == 7 && words[0] == "follow";
  if (!follow && !(words.size() == 5 && words[0] == "scores"))
    return Status(Code::kUsage,
                  "torch_probe follow NET WEIGHTS BATCHES OUT RATE MOMENTUM, or "
                  "torch_probe scores NET WEIGHTS BATCHES OUT");
  auto probe = Load(words[1], words[2]);
  if (!probe.ok()) return probe.status();
  const auto batches = ReadBatches(words[3]);
  if (!batches.ok()) return batches.status();
  if (!follow) return Scores(std::move(*probe), *batches, words[4]);
  return Follow(std::move(*probe), *batches, words[4], std::strtof(words[5].c_str(), nullptr),
                std::strtof(words[6].c_str(), nullptr));
}

}  // namespace
}  // namespace tern::engine

int main(int argc, char** argv) {
  omp_set_num_threads(1);
  const tern::Status status = tern::engine::Run({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "torch_probe: %s\n", status.message().c_str());
  return tern::ExitCode(status);
}
