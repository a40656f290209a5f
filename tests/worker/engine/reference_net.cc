#include "tests/worker/engine/reference_net.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "tests/worker/engine/reference_layer.h"

namespace tern::engine {
namespace {

struct RunningLayer {
  const pb::LayerDef* def;
  ReferenceState state;
  std::vector<const models::Parameter*> parameters;
  std::vector<const models::Statistic*> statistics;
  std::unique_ptr<ReferenceLayer> layer;
};

class NetReference {
 public:
  NetReference(const pb::NetDef& net, const ReferenceFeed& feed)
      : net_(net),
        feed_(feed),
        shapes_(*models::InferShapes(net)),
        table_(*models::MakeParameterTable(net)) {
    tensors_["data"] = Tensor(feed.batch, shapes_.at("data"));
    tensors_["data"].values.assign(feed.images.begin(), feed.images.end());
  }

  ReferenceRun Run() {
    ReferenceRun run;
    for (int i = 0; i + 1 < net_.layers_size(); ++i)
      Forward(net_.layers(i), static_cast<uint32_t>(i));
    ComputeLoss(net_.layers(net_.layers_size() - 1), &run);
    for (size_t i = layers_.size(); i-- > 0;) Backward(*layers_[i]);
    run.gradients.resize(table_.total);
    run.statistics.resize(table_.statistics_total);
    for (const auto& layer : layers_) CopyResults(*layer, &run);
    return run;
  }

 private:
  void Forward(const pb::LayerDef& def, uint32_t layer_index) {
    auto layer = std::make_unique<RunningLayer>();
    layer->def = &def;
    CopyStateFromFeed(layer.get());
    layer->state.training = feed_.training;
    layer->state.noise = {.seed = feed_.seed,
                          .stream = kernels::NoiseStream::kDropout,
                          .round = feed_.step,
                          .tensor = layer_index};
    layer->layer = MakeReferenceLayer(def, &layer->state);
    std::vector<const Tensor*> inputs;
    for (const std::string& input : def.inputs()) inputs.push_back(&tensors_.at(input));
    Tensor output(feed_.batch, shapes_.at(def.output()));
    layer->layer->Forward(inputs, &output);
    tensors_[def.output()] = std::move(output);
    layers_.push_back(std::move(layer));
  }

  void CopyStateFromFeed(RunningLayer* layer) const {
    const std::string prefix = layer->def->name() + ".";
    for (const models::Parameter& p : table_.parameters) {
      if (!p.name.starts_with(prefix)) continue;
      layer->parameters.push_back(&p);
      const auto begin = feed_.parameters.begin() + static_cast<long>(p.offset);
      layer->state.parameters.emplace_back(begin, begin + static_cast<long>(p.count));
      layer->state.gradients.emplace_back(p.count);
    }
    for (const models::Statistic& s : table_.statistics) {
      if (!s.name.starts_with(prefix)) continue;
      layer->statistics.push_back(&s);
      const auto begin = feed_.statistics.begin() + static_cast<long>(s.offset);
      layer->state.statistics.emplace_back(begin, begin + static_cast<long>(s.count));
    }
  }

  void Backward(RunningLayer& layer) {
    const std::vector<Tensor> input_gradients =
        layer.layer->Backward(gradients_.at(layer.def->output()));
    for (int i = 0; i < layer.def->inputs_size(); ++i)
      AddGradient(layer.def->inputs(i), input_gradients[static_cast<size_t>(i)]);
  }
  void AddGradient(const std::string& tensor, const Tensor& gradient) {
    const auto [entry, is_first] = gradients_.try_emplace(tensor, gradient);
    for (size_t i = 0; !is_first && i < gradient.values.size(); ++i)
      entry->second.values[i] += gradient.values[i];
  }

  static void CopyResults(const RunningLayer& layer, ReferenceRun* run) {
    for (size_t i = 0; i < layer.parameters.size(); ++i) {
      std::copy(layer.state.gradients[i].begin(), layer.state.gradients[i].end(),
                run->gradients.begin() + static_cast<long>(layer.parameters[i]->offset));
    }
    for (size_t i = 0; i < layer.statistics.size(); ++i) {
      std::copy(layer.state.statistics[i].begin(), layer.state.statistics[i].end(),
                run->statistics.begin() + static_cast<long>(layer.statistics[i]->offset));
    }
  }

  void ComputeLoss(const pb::LayerDef& def, ReferenceRun* run) {
    const Tensor& x = tensors_.at(def.inputs(0));
    run->scores = x.values;
    const double smoothing = def.softmax_loss().label_smoothing();
    Tensor dx = x.Zeros();
    for (size_t n = 0; n < feed_.used; ++n) {
      const double* row_scores = x.values.data() + n * x.c;
      double sum = 0;
      size_t best_class = 0;
      for (size_t c = 0; c < x.c; ++c) {
        sum += std::exp(row_scores[c]);
        if (row_scores[c] > row_scores[best_class]) best_class = c;
      }
      run->correct += best_class == feed_.labels[n];
      for (size_t c = 0; c < x.c; ++c) {
        const double target =
            smoothing / static_cast<double>(x.c) + (c == feed_.labels[n] ? 1 - smoothing : 0);
        run->loss -= target * (row_scores[c] - std::log(sum)) / feed_.used;
        dx.values[n * x.c + c] = (std::exp(row_scores[c]) / sum - target) / feed_.used;
      }
    }
    gradients_[def.inputs(0)] = dx;
  }

  const pb::NetDef& net_;
  const ReferenceFeed& feed_;
  const std::map<std::string, models::ImageDims> shapes_;
  const models::ParameterTable table_;
  std::map<std::string, Tensor> tensors_, gradients_;  // by name
  std::vector<std::unique_ptr<RunningLayer>> layers_;
};

}  // namespace

ReferenceRun RunReference(const pb::NetDef& net, const ReferenceFeed& feed) {
  return NetReference(net, feed).Run();
}

}  // namespace tern::engine
