#include "tools/net_arguments.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "common/base/atomic_file.h"
#include "common/base/text.h"
#include "models/graph/complete.h"
#include "models/models.h"
#include "setup/setup.h"

namespace tern::tools {
namespace {

Result<pb::NetDef> ReadNetJson(const std::string& path) {
  constexpr uint64_t kMaxBytes = 16 << 20;
  constexpr Time kReadTimeout = std::chrono::seconds(5);
  const Result<std::string> text = ReadAtMost(path, kMaxBytes + 1, kReadTimeout);
  if (!text.ok()) return text.status();
  if (text->size() > kMaxBytes) {
    return Status(Code::kBadData, Cat(path, " has more than ", kMaxBytes,
                                      " bytes, the most allowed; is it a NetDef in JSON?"));
  }
  pb::Model model;
  const auto parse_status = google::protobuf::util::JsonStringToMessage(*text, model.mutable_net());
  if (!parse_status.ok()) {
    return Status(Code::kBadData, Cat(path, ": is not a NetDef in JSON (",
                                      Printable(std::string(parse_status.message()), 200),
                                      "); `tern model NAME --json` prints one"));
  }
  auto net = models::BuildNet(model, model.net().input(), model.net().classes());
  if (!net.ok()) return net.status().Within(path);
  return net;
}

}  // namespace

std::vector<Flag> NetFlags() {
  return {{"channels"}, {"height"}, {"width"}, {"classes"}, {"batch_norm", false}};
}

Result<pb::NetDef> NetByName(const std::string& name, const Arguments& arguments) {
  pb::Model model;
  model.set_name(name);
  model.set_batch_norm(arguments.HasFlag("batch_norm"));
  const models::PublishedImage published_image = models::PublishedImageOf(name);
  const auto channels =
      arguments.NumberValue("channels", published_image.channels, models::kMaxDim);
  const auto height = arguments.NumberValue("height", published_image.side, models::kMaxDim);
  const auto width = arguments.NumberValue("width", published_image.side, models::kMaxDim);
  const auto classes = arguments.NumberValue("classes", published_image.classes, models::kMaxDim);
  for (const auto* number : {&channels, &height, &width, &classes})
    if (!number->ok()) return number->status();
  pb::ImageShape input;
  input.set_channels(*channels);
  input.set_height(*height);
  input.set_width(*width);
  return models::BuildNet(model, input, *classes);
}

Result<pb::NetDef> NetFromArgument(const std::string& name, const Arguments& arguments) {
  const std::vector<std::string>& known_names = models::ModelNames();
  if (std::find(known_names.begin(), known_names.end(), name) != known_names.end())
    return NetByName(name, arguments);
  for (const Flag& flag : NetFlags()) {
    if (!arguments.HasFlag(flag.name)) continue;
    return Status(Code::kUsage,
                  Cat("--", flag.name, " applies to the name of a known network only; ",
                      Printable(name), " is a file"));
  }
  if (name.ends_with(".json")) return ReadNetJson(name);
  if (name.find('.') == std::string::npos && name.find('/') == std::string::npos) {
    return Status(Code::kUsage, Cat("there is no network '", Printable(name), "'; known: ",
                                    Join(known_names), "; or give a NetDef (.json) or a job"));
  }
  const auto setup = setup::MakeSetup(name, {});
  if (!setup.ok()) return setup.status();
  return (*setup)->net;
}

}  // namespace tern::tools
