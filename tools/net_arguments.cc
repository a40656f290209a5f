#include "tools/net_arguments.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "common/base/atomic_file.h"
#include "common/base/text.h"
#include "common/config/nearest.h"
#include "models/graph/complete.h"
#include "models/models.h"
#include "setup/setup.h"
#include "tools/job_arguments.h"

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

// The value of a numeric flag, or `published` if it is missing.
Result<uint32_t> NumberOr(const setup::Arguments& arguments, const char* flag, uint32_t published) {
  if (!arguments.HasFlag(flag)) return published;
  return arguments.NumberValue(flag, models::kMaxDim);
}

Result<pb::NetDef> NetByName(const std::string& name, const setup::Arguments& arguments) {
  pb::Model model;
  model.set_name(name);
  model.set_batch_norm(arguments.HasFlag("batch_norm"));
  const models::PublishedImage published_image = models::PublishedImageOf(name);
  const auto channels = NumberOr(arguments, "channels", published_image.channels);
  const auto height = NumberOr(arguments, "height", published_image.side);
  const auto width = NumberOr(arguments, "width", published_image.side);
  const auto classes = NumberOr(arguments, "classes", published_image.classes);
  for (const auto* number : {&channels, &height, &width, &classes})
    if (!number->ok()) return number->status();
  pb::ImageShape input;
  input.set_channels(*channels);
  input.set_height(*height);
  input.set_width(*width);
  return models::BuildNet(model, input, *classes);
}

}  // namespace

Result<pb::NetDef> NetFromArgument(const std::string& name, const setup::Arguments& arguments) {
  const std::vector<std::string>& known_names = models::ModelNames();
  const bool is_known =
      std::find(known_names.begin(), known_names.end(), name) != known_names.end();
  if ((is_known || name.ends_with(".json")) && arguments.HasFlag("set"))
    return Status(Code::kUsage,
                  Cat("--set applies to the file of a job only; ", Printable(name),
                      is_known ? " is the name of a known network" : " is a network"));
  if (is_known) return NetByName(name, arguments);
  for (const char* flag : {"channels", "height", "width", "classes", "batch_norm"}) {
    if (!arguments.HasFlag(flag)) continue;
    return Status(Code::kUsage, Cat("--", flag, " applies to the name of a known network only; ",
                                    Printable(name), " is a file"));
  }
  if (name.ends_with(".json")) return ReadNetJson(name);
  if (name != "-" && name.find('.') == std::string::npos && name.find('/') == std::string::npos) {
    const std::string nearest = config::NearestName(name, known_names);
    return Status(Code::kUsage, Cat("there is no network '", Printable(name), "'; ",
                                    nearest.empty() ? "" : "did you mean " + nearest + "? ",
                                    "known: ", Join(known_names),
                                    "; or give the file of a job, or a NetDef (.json)"));
  }
  const auto setup = setup::MakeSetup(JobPath(name), arguments.AllValues("set"));
  if (!setup.ok()) return setup.status();
  return (*setup)->net;
}

}  // namespace tern::tools
