#include <algorithm>
#include <new>
#include <vector>

#include "common/base/logging.h"
#include "worker/engine/layer_cpu.h"
#include "worker/engine/net.h"

namespace tern::engine {
namespace {

using Shapes = std::map<std::string, models::ImageDims>;

// oneDNN counts elements of a tensor in int.
constexpr uint64_t kMaxElements = (uint64_t{1} << 31) - 1;

uint64_t Elements(const models::ImageDims& dims) { return uint64_t{dims.c} * dims.h * dims.w; }

Status Bad(const std::string& message) { return Status(Code::kBadJob, message); }

Status CheckBatch(const Shapes& shapes, uint32_t batch) {
  if (batch == 0) return Bad("the engine needs a batch of at least one sample");
  for (const auto& [name, dims] : shapes) {
    if (Elements(dims) <= kMaxElements / batch) continue;
    return Bad("tensor \"" + name + "\" has more than 2^31 elements at a batch of " +
               std::to_string(batch) + "; take a smaller batch a worker");
  }
  return Ok();
}

class CpuNet : public Net {
 public:
  CpuNet(uint32_t batch, uint64_t image_elements) : batch_(batch), image_(image_elements) {}

  double Forward(std::span<const float> images, std::span<const uint32_t> labels, uint32_t used,
                 Score* score, const Need& need) override {
    CHECK_EQ(images.size(), batch_ * image_);
    CHECK(used >= 1 && used <= batch_ && labels.size() >= used);
    for (uint32_t n = 0; n < used; ++n) CHECK_LT(labels[n], classes_);
    Batch& batch = program_.batch();
    batch = {images, labels, used, 0, 0};
    program_.RunForward(need);
    if (score != nullptr) {
      score->loss += batch.loss;
      score->correct += batch.correct;
      score->samples += used;
    }
    return batch.loss / used;
  }

  void Backward(const std::function<void(uint32_t p)>& ready) override {
    program_.RunBackward(ready);
  }

  // Appends all steps of the net. `specs` in order; throws what oneDNN and new throw, with *where
  // naming the layer it was at.
  void Plan(const std::vector<LayerSpec>& specs, std::string* where);

 private:
  Value PlanData(const models::ImageDims& image);

  const uint64_t batch_;
  const uint64_t image_;  // elements of one
  uint32_t classes_ = 0;
  Program program_;
};

// The images are copied in: Backward reads them too, and the caller's may be gone by then.
Value CpuNet::PlanData(const models::ImageDims& image) {
  const auto desc =
      Plain(DimsOf(static_cast<uint32_t>(batch_), image), dnnl::memory::format_tag::nchw);
  const Value data = program_.NewValue(desc);
  const Batch* batch = &program_.batch();
  program_.Call({data}, [batch](const std::vector<float*>& to) {
    std::copy(batch->images.begin(), batch->images.end(), to[0]);
  });
  return data;
}

void CpuNet::Plan(const std::vector<LayerSpec>& specs, std::string* where) {
  classes_ = specs.back().input.c;
  std::vector<std::unique_ptr<Layer>> layers;
  Value value = PlanData(specs.front().input);
  for (const LayerSpec& spec : specs) {
    *where = "layer \"" + spec.def->name() + "\"";
    layers.push_back(FindLayerKind(spec.def->kind_case())->make(spec));
    if (spec.weight_values != nullptr) {
      program_.Reads(spec.weight);
      program_.Reads(spec.bias);
    }
    value = layers.back()->Forward(&program_, value);
  }
  program_.EndForward();
  if (specs.front().training) {
    // Nothing below the first layer with parameters wants a gradient.
    size_t first = 0;
    while (specs[first].weight_values == nullptr) ++first;
    for (size_t i = specs.size(); i-- > first;) {
      *where = "the backward pass of layer \"" + specs[i].def->name() + "\"";
      value = layers[i]->Backward(&program_, value, /*wanted=*/i > first);
    }
  }
  *where = "the arena";
  program_.Bind();
}

// Layers with their shapes and parameters; a ReLU that the layer before applies is folded into it.
// Every layer has one input, which the layer just before made: with one loss at the end, no output
// unread and no layer of two inputs, a valid net is a chain.
Result<std::vector<LayerSpec>> MakeSpecs(const pb::NetDef& def, const Net::Options& options,
                                         const Shapes& shapes, const models::ParameterTable& table,
                                         const float* parameters, float* gradients) {
  std::vector<LayerSpec> specs;
  models::ImageDims dims = shapes.at("data");
  uint32_t p = 0;
  for (const pb::LayerDef& layer : def.layers()) {
    const LayerKind* kind = FindLayerKind(layer.kind_case());
    if (kind == nullptr) return Bad("layer \"" + layer.name() + "\": the engine has no such kind");
    if (layer.has_relu() && !specs.empty() && !specs.back().relu &&
        FindLayerKind(specs.back().def->kind_case())->fuses_relu) {
      specs.back().relu = true;
      continue;
    }
    LayerSpec spec;
    spec.def = &layer;
    spec.batch = options.batch;
    spec.training = options.training;
    spec.input = dims;
    spec.output = dims = shapes.at(layer.output().empty() ? layer.name() : layer.output());
    if (layer.has_conv() || layer.has_dense()) {
      spec.weight = p++;
      spec.bias = p++;
      const uint64_t weight = table.parameters[spec.weight].offset;
      const uint64_t bias = table.parameters[spec.bias].offset;
      spec.weight_values = const_cast<float*>(parameters) + weight;
      spec.bias_values = const_cast<float*>(parameters) + bias;
      if (options.training) {
        spec.weight_gradient = gradients + weight;
        spec.bias_gradient = gradients + bias;
      }
    }
    specs.push_back(spec);
  }
  return specs;
}

}  // namespace

Result<std::unique_ptr<Net>> Net::Make(const pb::NetDef& def, const Options& options,
                                       const float* parameters, float* gradients) {
  const auto shapes = models::InferShapes(def);
  if (!shapes.ok()) return shapes.status();
  const auto table = models::MakeParameterTable(def);
  if (!table.ok()) return table.status();
  TERN_RETURN_IF_ERROR(CheckBatch(*shapes, options.batch));
  const auto specs = MakeSpecs(def, options, *shapes, *table, parameters, gradients);
  if (!specs.ok()) return specs.status();
  std::string where = "the engine";
  try {
    auto net = std::make_unique<CpuNet>(options.batch, Elements(shapes->at("data")));
    net->Plan(*specs, &where);
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
