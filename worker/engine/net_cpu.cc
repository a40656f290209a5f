#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <vector>

#include "common/base/logging.h"
#include "worker/engine/backends.h"
#include "worker/engine/layer_cpu.h"
#include "worker/engine/specs.h"

namespace tern::engine {
namespace {

Status Bad(const std::string& message) { return Status(Code::kBadJob, message); }

std::optional<bool> FusesReluHere(pb::LayerDef::KindCase kind) {
  const LayerKind* line = FindLayerKind(kind);
  return line == nullptr ? std::nullopt : std::optional(line->fuses_relu);
}

class CpuNet : public Net {
 public:
  CpuNet(const pb::NetDef& def, uint32_t batch) : def_(def), batch_(batch) {}

  Status MakeLayers(const Options& options, const Arenas& arenas) {
    auto layers = PlanLayers(def_, options, arenas, FusesReluHere);
    if (!layers.ok()) return layers.status();
    layers_ = std::move(*layers);
    return Ok();
  }
  // Appends all steps of the net; throws what oneDNN and new throw, with *where naming the layer it
  // was at. Of the layers only their steps are left.
  void Plan(std::string* where);

  double Forward(const Feed& feed, Score* score, const Need& need) override {
    CHECK_EQ(feed.images.size(), batch_ * image_);
    CHECK(feed.used >= 1 && feed.used <= batch_ && feed.labels.size() >= feed.used);
    for (uint32_t n = 0; n < feed.used; ++n) CHECK_LT(feed.labels[n], def_.classes());
    Batch& batch = program_.batch();
    batch = {feed, {}};
    program_.RunForward(need);
    if (score != nullptr) {
      score->loss += batch.score.loss;
      score->correct += batch.score.correct;
      score->among_five += batch.score.among_five;
      score->samples += batch.score.samples;
    }
    return batch.score.loss / feed.used;
  }

  void Backward(const std::function<void(uint32_t p)>& ready) override {
    program_.RunBackward(ready);
  }

 private:
  void PlanData();
  void PlanForward(std::string* where);
  void PlanBackward(std::string* where);
  void AddGradient(const std::string& tensor, const Value& gradient);

  const pb::NetDef def_;
  const uint64_t batch_;
  uint64_t image_ = 0;  // elements of one
  Program program_;
  std::vector<PlannedLayer> layers_;
  // While it is planned:
  std::vector<std::unique_ptr<Layer>> running_;
  std::map<std::string, Value> values_, gradients_;  // by tensor
  std::map<std::string, bool> trained_;              // by tensor: whether parameters made it
};

// The images are copied in: Backward reads them too, and the caller's may be gone by then.
void CpuNet::PlanData() {
  const pb::ImageShape& input = def_.input();
  const models::ImageDims image = {input.channels(), input.height(), input.width()};
  image_ = models::Elements(image);
  const Value data = program_.NewValue(
      Plain(DimsOf(static_cast<uint32_t>(batch_), image), dnnl::memory::format_tag::nchw));
  const Batch* batch = &program_.batch();
  program_.Call({data}, [batch](const std::vector<float*>& to) {
    std::copy(batch->feed.images.begin(), batch->feed.images.end(), to[0]);
  });
  values_["data"] = data;
}

void CpuNet::PlanForward(std::string* where) {
  for (const PlannedLayer& layer : layers_) {
    *where = "layer \"" + layer.spec.def->name() + "\"";
    bool& trained = trained_[layer.makes] = !layer.spec.parameters.empty();
    std::vector<Value> inputs;
    for (const std::string& tensor : layer.reads) {
      inputs.push_back(values_.at(tensor));
      trained |= trained_[tensor];
    }
    for (const ParameterPlace& parameter : layer.spec.parameters) program_.Reads(parameter.index);
    running_.push_back(FindLayerKind(layer.spec.def->kind_case())->make(layer.spec));
    values_[layer.makes] = running_.back()->Forward(&program_, inputs);
  }
  program_.EndForward();
}

// A tensor's gradient is the sum of what each of its readers says; they all come before its maker.
void CpuNet::AddGradient(const std::string& tensor, const Value& gradient) {
  const auto [found, first] = gradients_.try_emplace(tensor, gradient);
  if (!first) found->second = program_.Add(found->second, gradient, Program::Attributes());
}

void CpuNet::PlanBackward(std::string* where) {
  for (size_t i = layers_.size(); i-- > 0;) {
    const PlannedLayer& layer = layers_[i];
    if (!trained_[layer.makes]) continue;
    *where = "the backward pass of layer \"" + layer.spec.def->name() + "\"";
    std::vector<bool> wanted;
    for (const std::string& tensor : layer.reads) wanted.push_back(trained_[tensor]);
    const std::vector<Value> inputs =
        running_[i]->Backward(&program_, gradients_[layer.makes], wanted);
    for (size_t k = 0; k < wanted.size(); ++k) {
      if (wanted[k]) AddGradient(layer.reads[k], inputs[k]);
    }
    for (size_t p = layer.spec.parameters.size(); p-- > 0;)
      program_.Ready(layer.spec.parameters[p].index);
  }
}

void CpuNet::Plan(std::string* where) {
  PlanData();
  PlanForward(where);
  if (layers_.front().spec.training) PlanBackward(where);
  *where = "the arena";
  program_.Bind();
  running_.clear();
  values_.clear();
  gradients_.clear();
}

}  // namespace

Result<std::unique_ptr<Net>> MakeCpuNet(const pb::NetDef& def, const Net::Options& options,
                                        const Net::Arenas& arenas) {
  auto net = std::make_unique<CpuNet>(def, options.batch);
  TERN_RETURN_IF_ERROR(net->MakeLayers(options, arenas));
  std::string where = "the engine";
  try {
    net->Plan(&where);
    return std::unique_ptr<Net>(std::move(net));
  } catch (const dnnl::error& error) {
    return Bad(where + ": oneDNN cannot run it at a batch of " + std::to_string(options.batch) +
               ": " + error.what());
  } catch (const std::bad_alloc&) {
    return Bad(where + ": not enough memory at a batch of " + std::to_string(options.batch) +
               "; take a smaller batch a worker or a smaller net");
  }
}

}  // namespace tern::engine
