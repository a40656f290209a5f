#include "models/graph/complete.h"

#include <map>
#include <set>

#include "common/base/text.h"
#include "models/graph/layer_rules.h"

namespace tern::models {
namespace {

constexpr char kData[] = "data";
constexpr char kLabel[] = "label";

Status BadNet(const std::string& message) { return Status(Code::kBadJob, message); }

std::string Quote(const std::string& text) { return '"' + text + '"'; }

bool IsPlainName(const std::string& name) {
  if (name.empty() || name.size() > kMaxLayerName) return false;
  for (char c : name) {
    const bool is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/';
    if (!is_allowed) return false;
  }
  return true;
}

Status CompleteKind(pb::LayerDef* layer) {
  const LayerRules* rules = FindRules(layer->kind_case());
  if (rules == nullptr) return BadNet("it has no kind; give it one of " + KindNames());
  return rules->complete(layer);
}

// Tracks which layer makes each tensor, and which tensors no layer has read yet.
class Wiring {
 public:
  Wiring() {
    maker_by_tensor_[kData] = "the data";
    unread_tensors_.insert(kData);
  }

  // Fills in and checks the inputs and the output of the next layer.
  Status Connect(pb::LayerDef* layer) {
    const bool is_loss = layer->has_softmax_loss();
    if (layer->inputs().empty()) layer->add_inputs(last_output_);
    if (is_loss && layer->inputs_size() == 1) layer->add_inputs(kLabel);
    if (!layer->has_output()) layer->set_output(layer->name());
    TERN_RETURN_IF_ERROR(CheckInputs(*layer));
    for (const std::string& input : layer->inputs()) {
      if (!is_loss || input != kLabel) TERN_RETURN_IF_ERROR(MarkRead(input));
    }
    return AddOutput(layer);
  }

  // Returns a tensor that no layer reads, other than the last layer's output; "" if there is none.
  std::string UnreadTensor() const {
    for (const std::string& name : unread_tensors_) {
      if (name != last_output_) return name;
    }
    return "";
  }

 private:
  static Status CheckInputs(const pb::LayerDef& layer) {
    const std::string inputs_text =
        Cat("it has ", layer.inputs_size(), " inputs; ", KindName(layer));
    if (layer.has_softmax_loss()) {
      if (layer.inputs_size() != 2)
        return BadNet(inputs_text + " takes two, the scores and \"label\"");
      if (layer.inputs(1) == kLabel && layer.inputs(0) != kLabel) return Ok();
      return BadNet("its inputs are " + Quote(layer.inputs(0)) + " and " + Quote(layer.inputs(1)) +
                    "; they must be the scores and \"label\"");
    }
    const LayerRules& rules = *FindRules(layer.kind_case());
    if (layer.inputs_size() >= rules.min_inputs && layer.inputs_size() <= rules.max_inputs)
      return Ok();
    return BadNet(inputs_text + (rules.max_inputs == 1
                                     ? " takes one"
                                     : Cat(" takes ", rules.min_inputs, " to ", rules.max_inputs)));
  }

  Status MarkRead(const std::string& name) {
    if (name == kLabel) return BadNet("it reads \"label\", which only softmax_loss can");
    if (!maker_by_tensor_.count(name)) {
      return BadNet("its input " + Quote(name.substr(0, kMaxLayerName)) +
                    " is made by no earlier layer; name the output of one, or \"data\"");
    }
    unread_tensors_.erase(name);
    return Ok();
  }

  Status AddOutput(const pb::LayerDef* layer) {
    const std::string& name = layer->output();
    if (!IsPlainName(name))
      return BadNet("its output's name must be 1 to " + std::to_string(kMaxLayerName) +
                    " letters, digits, '_', '-', '.' or '/'");
    if (name == kLabel || maker_by_tensor_.count(name)) {
      const std::string maker = name == kLabel ? "the data" : maker_by_tensor_[name];
      return BadNet("its output " + Quote(name) + " is already made by " + maker +
                    "; give it another name");
    }
    maker_by_tensor_[name] = "layer " + Quote(layer->name());
    unread_tensors_.insert(name);
    last_output_ = name;
    return Ok();
  }

  std::map<std::string, std::string> maker_by_tensor_;
  std::set<std::string> unread_tensors_;
  std::string last_output_ = kData;
};

Status CheckSizes(const pb::NetDef& net) {
  TERN_RETURN_IF_ERROR(CheckSize("input.channels", net.input().channels()).Within("net"));
  TERN_RETURN_IF_ERROR(CheckSize("input.height", net.input().height()).Within("net"));
  TERN_RETURN_IF_ERROR(CheckSize("input.width", net.input().width()).Within("net"));
  TERN_RETURN_IF_ERROR(CheckSize("classes", net.classes()).Within("net"));
  if (net.layers().empty())
    return BadNet("net: it has no layers; give at least a dense layer and a loss");
  if (net.layers_size() > kMaxLayers) {
    return BadNet("net: it has " + std::to_string(net.layers_size()) + " layers; at most " +
                  std::to_string(kMaxLayers) + " are allowed");
  }
  return Ok();
}

Status CheckNames(const pb::NetDef& net) {
  std::set<std::string> seen_names;
  for (int i = 0; i < net.layers_size(); ++i) {
    const std::string& name = net.layers(i).name();
    if (!IsPlainName(name)) {
      return BadNet("net: layer number " + std::to_string(i + 1) + " needs a name of 1 to " +
                    std::to_string(kMaxLayerName) + " letters, digits, '_', '-', '.' or '/'");
    }
    if (!seen_names.insert(name).second) {
      return BadNet("net: two layers are called " + Quote(name) + "; names must be unique");
    }
  }
  return Ok();
}

}  // namespace

std::string KindName(const pb::LayerDef& layer) {
  const LayerRules* rules = FindRules(layer.kind_case());
  return rules == nullptr ? "none" : rules->name;
}

std::string Describe(const pb::LayerDef& layer) {
  return "layer " + Quote(layer.name()) + " (" + KindName(layer) + ")";
}

Result<pb::NetDef> CompleteNet(pb::NetDef net) {
  TERN_RETURN_IF_ERROR(CheckSizes(net));
  TERN_RETURN_IF_ERROR(CheckNames(net));
  Wiring wiring;
  for (int i = 0; i < net.layers_size(); ++i) {
    pb::LayerDef* layer = net.mutable_layers(i);
    TERN_RETURN_IF_ERROR(CompleteKind(layer).Within(Describe(*layer)));
    TERN_RETURN_IF_ERROR(wiring.Connect(layer).Within(Describe(*layer)));
    const bool is_last = i + 1 == net.layers_size();
    if (layer->has_softmax_loss() == is_last) continue;
    return BadNet(Describe(*layer) +
                  (is_last ? ": the last layer must be a softmax_loss"
                           : ": softmax_loss must be the last layer, and only once"));
  }
  if (const std::string name = wiring.UnreadTensor(); !name.empty()) {
    return BadNet("net: no layer reads " + Quote(name) +
                  "; remove the layer that makes it, or use it");
  }
  return net;
}

}  // namespace tern::models
