#include "tests/worker/engine/reference_net.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "tests/worker/engine/reference_layer.h"

namespace tern::engine {
namespace {

struct Running {
  const pb::LayerDef* def;
  ReferenceState state;
  std::vector<const models::Parameter*> parameters;
  std::vector<const models::Statistic*> statistics;
  std::unique_ptr<ReferenceLayer> layer;
};

class Reference {
 public:
  Reference(const pb::NetDef& net, const ReferenceFeed& feed)
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
    Loss(net_.layers(net_.layers_size() - 1), &run);
    for (size_t i = layers_.size(); i-- > 0;) Backward(*layers_[i]);
    run.gradients.resize(table_.total);
    run.statistics.resize(table_.statistics_total);
    for (const auto& one : layers_) Collect(*one, &run);
    return run;
  }

 private:
  void Forward(const pb::LayerDef& def, uint32_t number) {
    auto running = std::make_unique<Running>();
    running->def = &def;
    TakeState(running.get());
    running->state.training = feed_.training;
    running->state.noise = {.seed = feed_.seed,
                            .stream = kernels::NoiseStream::kDropout,
                            .round = feed_.step,
                            .tensor = number};
    running->layer = MakeReferenceLayer(def, &running->state);
    std::vector<const Tensor*> inputs;
    for (const std::string& input : def.inputs()) inputs.push_back(&tensors_.at(input));
    Tensor output(feed_.batch, shapes_.at(def.output()));
    running->layer->Forward(inputs, &output);
    tensors_[def.output()] = std::move(output);
    layers_.push_back(std::move(running));
  }

  void TakeState(Running* running) const {
    const std::string prefix = running->def->name() + ".";
    for (const models::Parameter& p : table_.parameters) {
      if (!p.name.starts_with(prefix)) continue;
      running->parameters.push_back(&p);
      const auto first = feed_.parameters.begin() + static_cast<long>(p.offset);
      running->state.parameters.emplace_back(first, first + static_cast<long>(p.count));
      running->state.gradients.emplace_back(p.count);
    }
    for (const models::Statistic& s : table_.statistics) {
      if (!s.name.starts_with(prefix)) continue;
      running->statistics.push_back(&s);
      const auto first = feed_.statistics.begin() + static_cast<long>(s.offset);
      running->state.statistics.emplace_back(first, first + static_cast<long>(s.count));
    }
  }

  void Backward(Running& running) {
    const std::vector<Tensor> inputs =
        running.layer->Backward(gradients_.at(running.def->output()));
    for (int i = 0; i < running.def->inputs_size(); ++i)
      AddGradient(running.def->inputs(i), inputs[static_cast<size_t>(i)]);
  }
  void AddGradient(const std::string& tensor, const Tensor& gradient) {
    const auto [found, first] = gradients_.try_emplace(tensor, gradient);
    for (size_t i = 0; !first && i < gradient.values.size(); ++i)
      found->second.values[i] += gradient.values[i];
  }

  static void Collect(const Running& running, ReferenceRun* run) {
    for (size_t i = 0; i < running.parameters.size(); ++i) {
      std::copy(running.state.gradients[i].begin(), running.state.gradients[i].end(),
                run->gradients.begin() + static_cast<long>(running.parameters[i]->offset));
    }
    for (size_t i = 0; i < running.statistics.size(); ++i) {
      std::copy(running.state.statistics[i].begin(), running.state.statistics[i].end(),
                run->statistics.begin() + static_cast<long>(running.statistics[i]->offset));
    }
  }

  void Loss(const pb::LayerDef& def, ReferenceRun* run) {
    const Tensor& x = tensors_.at(def.inputs(0));
    run->scores = x.values;
    const double smoothing = def.softmax_loss().label_smoothing();
    Tensor dx = x.Zeros();
    for (size_t n = 0; n < feed_.used; ++n) {
      const double* row = x.values.data() + n * x.c;
      double sum = 0;
      size_t best = 0;
      for (size_t c = 0; c < x.c; ++c) {
        sum += std::exp(row[c]);
        if (row[c] > row[best]) best = c;
      }
      run->correct += best == feed_.labels[n];
      for (size_t c = 0; c < x.c; ++c) {
        const double q =
            smoothing / static_cast<double>(x.c) + (c == feed_.labels[n] ? 1 - smoothing : 0);
        run->loss -= q * (row[c] - std::log(sum)) / feed_.used;
        dx.values[n * x.c + c] = (std::exp(row[c]) / sum - q) / feed_.used;
      }
    }
    gradients_[def.inputs(0)] = dx;
  }

  const pb::NetDef& net_;
  const ReferenceFeed& feed_;
  const std::map<std::string, models::ImageDims> shapes_;
  const models::ParameterTable table_;
  std::map<std::string, Tensor> tensors_, gradients_;  // by name
  std::vector<std::unique_ptr<Running>> layers_;
};

}  // namespace

ReferenceRun RunReference(const pb::NetDef& net, const ReferenceFeed& feed) {
  return Reference(net, feed).Run();
}

}  // namespace tern::engine
