// Runs Tern's network engine on weights and batches that PyTorch wrote, so that the scripts in this
// folder can compare the results with PyTorch's.
//
//   torch_probe follow NET.json WEIGHTS BATCHES OUT RATE MOMENTUM
//       Trains one step on each batch. BATCHES has images [steps, batch, C, H, W] and labels
//       [steps, batch]. Writes to OUT the loss of each step, and the weights and statistics after
//       the last step.
//   torch_probe scores NET.json WEIGHTS BATCHES OUT
//       Writes to OUT the scores of the images [n, C, H, W], with the network in evaluation mode.
//
// NET.json is a proto NetDef as JSON; all other files are safetensors.
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

// A network with its weights and its batch-norm statistics.
struct LoadedNet {
  pb::NetDef net;
  models::ParameterTable table;
  std::vector<float> parameters, statistics;
};

Result<LoadedNet> LoadNet(const std::string& net_path, const std::string& weights_path) {
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
  LoadedNet loaded_net{*net, *table, std::vector<float>(table->total),
                       std::vector<float>(table->statistics_total)};
  TERN_RETURN_IF_ERROR(models::LoadArena(*weights, *table, loaded_net.parameters.data()));
  TERN_RETURN_IF_ERROR(models::LoadStatistics(*weights, *table, loaded_net.statistics.data()));
  return loaded_net;
}

struct Batches {
  std::vector<float> images;
  std::vector<uint32_t> labels;  // One per image, or empty.
  uint64_t num_batches = 0;
  uint64_t batch_size = 0;  // Images per batch.
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
    const bool has_step_dimension = tensor.shape.size() == 5;
    batches.num_batches = has_step_dimension ? tensor.shape[0] : 1;
    batches.batch_size = tensor.shape[has_step_dimension ? 1 : 0];
  }
  return batches;
}

Status RunFollow(LoadedNet loaded_net, const Batches& batches, const std::string& out_path,
                 float rate, float momentum) {
  std::vector<float> gradients(loaded_net.table.total), velocity(loaded_net.table.total), losses;
  auto net =
      Net::Make(loaded_net.net, {.batch = static_cast<uint32_t>(batches.batch_size)},
                {loaded_net.parameters.data(), gradients.data(), loaded_net.statistics.data()});
  if (!net.ok()) return net.status();
  const uint64_t batch_elements = batches.images.size() / batches.num_batches;
  for (uint64_t step = 0; step < batches.num_batches; ++step) {
    const Net::Feed feed{{batches.images.data() + step * batch_elements, batch_elements},
                         {batches.labels.data() + step * batches.batch_size, batches.batch_size},
                         static_cast<uint32_t>(batches.batch_size),
                         step + 1};
    losses.push_back(static_cast<float>((*net)->Forward(feed, nullptr)));
    (*net)->Backward(nullptr);
    kernels::MomentumUpdate(loaded_net.parameters.data(), velocity.data(), gradients.data(),
                            loaded_net.table.total, rate, momentum, 0);
  }
  std::vector<tensors::TensorView> tensors = {{"losses", {losses.size()}, losses}};
  for (auto& view : models::ViewArena(loaded_net.table, loaded_net.parameters.data()))
    tensors.push_back(view);
  for (auto& view : models::ViewStatistics(loaded_net.table, loaded_net.statistics.data()))
    tensors.push_back(view);
  return tensors::WriteSafetensors(out_path, tensors, {});
}

Status RunScores(LoadedNet loaded_net, const Batches& batches, const std::string& out_path) {
  const auto batch_size = static_cast<uint32_t>(batches.batch_size);
  auto net = Net::Make(loaded_net.net, {.batch = batch_size, .is_training = false},
                       {loaded_net.parameters.data(), nullptr, loaded_net.statistics.data()});
  if (!net.ok()) return net.status();
  const uint32_t num_classes = loaded_net.net.classes();
  const std::vector<uint32_t> labels(batch_size);
  std::vector<float> scores(size_t{batch_size} * num_classes);
  (*net)->Forward({batches.images, labels, batch_size, 0, scores}, nullptr);
  return tensors::WriteSafetensors(out_path, {{"scores", {batch_size, num_classes}, scores}}, {});
}

Status Run(const std::vector<std::string>& arguments) {
  const bool is_follow_command = arguments.size() == 7 && arguments[0] == "follow";
  if (!is_follow_command && !(arguments.size() == 5 && arguments[0] == "scores"))
    return Status(Code::kUsage,
                  "torch_probe follow NET WEIGHTS BATCHES OUT RATE MOMENTUM, or "
                  "torch_probe scores NET WEIGHTS BATCHES OUT");
  auto loaded_net = LoadNet(arguments[1], arguments[2]);
  if (!loaded_net.ok()) return loaded_net.status();
  const auto batches = ReadBatches(arguments[3]);
  if (!batches.ok()) return batches.status();
  if (!is_follow_command) return RunScores(std::move(*loaded_net), *batches, arguments[4]);
  return RunFollow(std::move(*loaded_net), *batches, arguments[4],
                   std::strtof(arguments[5].c_str(), nullptr),
                   std::strtof(arguments[6].c_str(), nullptr));
}

}  // namespace
}  // namespace tern::engine

int main(int argc, char** argv) {
  omp_set_num_threads(1);
  const tern::Status status = tern::engine::Run({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "torch_probe: %s\n", status.message().c_str());
  return tern::ExitCode(status);
}
