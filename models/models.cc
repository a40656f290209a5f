#include "models/models.h"

#include "models/complete.h"
#include "models/lenet.h"
#include "models/shapes.h"

namespace tern::models {
namespace {

struct Builder {
  const char* name;
  pb::NetDef (*build)(const pb::Model& model, uint32_t classes);
};

constexpr Builder kBuilders[] = {
    {"lenet", &LeNet},
};

Status Bad(const std::string& message) { return Status(Code::kBadJob, message); }

std::string KnownNames() {
  std::string list;
  for (const std::string& name : ModelNames()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

Result<pb::NetDef> BuildByName(const pb::Model& model, uint32_t classes) {
  for (const Builder& builder : kBuilders) {
    if (model.name() == builder.name) return builder.build(model, classes);
  }
  return Bad("model.name: \"" + model.name().substr(0, kMaxLayerName) +
             "\" is not known; the known ones are " + KnownNames() +
             ", or leave it out and give model.net");
}

std::string Text(const pb::ImageShape& shape) {
  return std::to_string(shape.channels()) + " x " + std::to_string(shape.height()) + " x " +
         std::to_string(shape.width());
}

// A user's own net may leave out what the data say; where it says something it must be the same.
Status CheckAgainstData(const pb::NetDef& net, const pb::ImageShape& input, uint32_t classes) {
  const pb::ImageShape& own = net.input();
  const bool same = (!own.has_channels() || own.channels() == input.channels()) &&
                    (!own.has_height() || own.height() == input.height()) &&
                    (!own.has_width() || own.width() == input.width());
  if (!same) {
    return Bad("model.net.input is " + Text(own) +
               " (channels x height x width), but the data are " + Text(input) +
               "; leave it out or make it the same");
  }
  if (net.has_classes() && net.classes() != classes) {
    return Bad("model.net.classes is " + std::to_string(net.classes()) + ", but the data have " +
               std::to_string(classes) + "; leave it out or make it the same");
  }
  return Ok();
}

}  // namespace

Result<pb::NetDef> BuildNet(const pb::Model& model, const pb::ImageShape& input, uint32_t classes) {
  if (model.has_name() && model.has_net()) {
    return Bad("model: both name and net are given; give one of them");
  }
  if (!model.has_name() && !model.has_net()) {
    return Bad("model: neither name nor net is given; take model.name from " + KnownNames() +
               ", or write model.net");
  }
  pb::NetDef net = model.net();
  if (model.has_net()) {
    TERN_RETURN_IF_ERROR(CheckAgainstData(net, input, classes));
  } else {
    Result<pb::NetDef> built = BuildByName(model, classes);
    if (!built.ok()) return built.status();
    net = std::move(*built);
  }
  *net.mutable_input() = input;
  net.set_classes(classes);
  Result<pb::NetDef> complete = CompleteNet(std::move(net));
  if (!complete.ok()) return complete.status().Within("model");
  TERN_RETURN_IF_ERROR(MakeParameterTable(*complete).status().Within("model"));
  return complete;
}

const std::vector<std::string>& ModelNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Builder& builder : kBuilders) list.push_back(builder.name);
    return list;
  }();
  return names;
}

}  // namespace tern::models
