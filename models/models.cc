#include "models/models.h"

#include "models/builders.h"
#include "models/graph/complete.h"
#include "models/graph/shapes.h"

namespace tern::models {
namespace {

// Keys of the job's section `model` that only some builders accept, as bits.
enum OptionalArgument : unsigned {
  kNoArguments = 0,
  kPadding = 1,
  kBatchNorm = 2,
  kDropout = 4,
  kWidth = 8
};

struct Builder {
  const char* name;
  pb::NetDef (*build)(const BuildRequest& request);
  unsigned optional_arguments;  // bits of OptionalArgument
  PublishedImage published_image;
};

constexpr Builder kBuilders[] = {
    {"lenet", &LeNet, kPadding, {1, 28, 10}},
    {"cifarnet", &CifarNet, kNoArguments, {3, 24, 10}},
    {"alexnet", &AlexNet, kBatchNorm | kDropout, {3, 224, 1000}},
    {"vgg_a", &VggA, kBatchNorm | kDropout, {3, 224, 1000}},
    {"vgg16", &Vgg16, kBatchNorm | kDropout, {3, 224, 1000}},
    {"vgg19", &Vgg19, kBatchNorm | kDropout, {3, 224, 1000}},
    {"googlenet", &GoogLeNet, kBatchNorm | kDropout, {3, 224, 1000}},
    {"inception_bn", &InceptionBn, kNoArguments, {3, 224, 1000}},
    {"resnet18_v2", &ResNet18V2, kNoArguments, {3, 32, 10}},
    {"resnet20", &ResNet20, kNoArguments, {3, 32, 10}},
    {"resnet32", &ResNet32, kNoArguments, {3, 32, 10}},
    {"resnet50", &ResNet50, kNoArguments, {3, 224, 1000}},
    {"resnet110", &ResNet110, kNoArguments, {3, 32, 10}},
    {"resnet152", &ResNet152, kNoArguments, {3, 224, 1000}},
    {"mobilenet", &MobileNet, kWidth, {3, 224, 1000}},
    {"airbench94", &Airbench94, kNoArguments, {3, 32, 10}},
};

Status BadModel(const std::string& message) { return Status(Code::kBadJob, message); }

std::string KnownNames() {
  std::string known_names;
  for (const std::string& name : ModelNames())
    known_names += (known_names.empty() ? "" : ", ") + name;
  return known_names;
}

// `taker`: the network's name in an error.
Status CheckArguments(const pb::Model& model, const std::string& taker,
                      unsigned optional_arguments) {
  const struct {
    const char* name;
    bool is_given;
    OptionalArgument bit;
  } arguments[] = {
      {"padding", model.has_padding() && model.padding() != pb::Model::valid, kPadding},
      {"batch_norm", model.batch_norm(), kBatchNorm},
      {"dropout", model.has_dropout(), kDropout},
      {"width_multiplier", model.width_multiplier() != 1, kWidth}};
  for (const auto& argument : arguments) {
    if (!argument.is_given || (optional_arguments & argument.bit) != 0) continue;
    return BadModel(std::string("model.") + argument.name + ": " + taker +
                    " does not take this argument; leave it out");
  }
  return Ok();
}

Result<pb::NetDef> BuildByName(const BuildRequest& request) {
  const pb::Model& model = request.model;
  for (const Builder& builder : kBuilders) {
    if (model.name() != builder.name) continue;
    TERN_RETURN_IF_ERROR(CheckArguments(model, builder.name, builder.optional_arguments));
    return builder.build(request);
  }
  return BadModel("model.name: \"" + model.name().substr(0, kMaxLayerName) +
                  "\" is not known; the known ones are " + KnownNames() +
                  ", or leave it out and give model.net");
}

std::string ShapeText(const pb::ImageShape& shape) {
  return std::to_string(shape.channels()) + " x " + std::to_string(shape.height()) + " x " +
         std::to_string(shape.width());
}

// Checks a net that the job defines: its input and number of classes, if given, must be those of
// the data.
Status CheckAgainstData(const pb::NetDef& net, const pb::ImageShape& input, uint32_t classes) {
  const pb::ImageShape& stated_input = net.input();
  const bool is_consistent =
      (!stated_input.has_channels() || stated_input.channels() == input.channels()) &&
      (!stated_input.has_height() || stated_input.height() == input.height()) &&
      (!stated_input.has_width() || stated_input.width() == input.width());
  if (!is_consistent) {
    return BadModel("model.net.input is " + ShapeText(stated_input) +
                    " (channels x height x width), but the data are " + ShapeText(input) +
                    "; leave it out or make it the same");
  }
  if (net.has_classes() && net.classes() != classes) {
    return BadModel("model.net.classes is " + std::to_string(net.classes()) +
                    ", but the data have " + std::to_string(classes) +
                    "; leave it out or make it the same");
  }
  return Ok();
}

}  // namespace

Result<pb::NetDef> BuildNet(const pb::Model& model, const pb::ImageShape& input, uint32_t classes) {
  if (model.has_name() && model.has_net()) {
    return BadModel("model: both name and net are given; give one of them");
  }
  if (!model.has_name() && !model.has_net()) {
    return BadModel("model: neither name nor net is given; take model.name from " + KnownNames() +
                    ", or write model.net");
  }
  pb::NetDef net = model.net();
  if (model.has_net()) {
    TERN_RETURN_IF_ERROR(CheckArguments(model, "model.net", kNoArguments));
    TERN_RETURN_IF_ERROR(CheckAgainstData(net, input, classes));
  } else {
    Result<pb::NetDef> built_net = BuildByName({model, input, classes});
    if (!built_net.ok()) return built_net.status();
    net = std::move(*built_net);
  }
  *net.mutable_input() = input;
  net.set_classes(classes);
  Result<pb::NetDef> complete_net = CompleteNet(std::move(net));
  if (!complete_net.ok()) return complete_net.status().Within("model");
  TERN_RETURN_IF_ERROR(MakeParameterTable(*complete_net).status().Within("model"));
  return complete_net;
}

PublishedImage PublishedImageOf(const std::string& name) {
  for (const Builder& builder : kBuilders) {
    if (name == builder.name) return builder.published_image;
  }
  return kBuilders[0].published_image;
}

const std::vector<std::string>& ModelNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> known_names;
    for (const Builder& builder : kBuilders) known_names.push_back(builder.name);
    return known_names;
  }();
  return names;
}

}  // namespace tern::models
