// Fuzzes networks as JSON (NetDef): arbitrary text must be refused with a sentence, or give a
// complete network, which stays the same when it is written and built again.
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "models/graph/shapes.h"
#include "models/models.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using google::protobuf::util::JsonStringToMessage;
  const std::string text(reinterpret_cast<const char*>(data), size);
  tern::pb::Model model;
  if (!JsonStringToMessage(text, model.mutable_net()).ok()) return 0;
  const auto net = tern::models::BuildNet(model, model.net().input(), model.net().classes());
  if (!net.ok()) {
    const bool has_reason =
        net.status().code() == tern::Code::kBadJob && !net.status().message().empty();
    if (!has_reason) std::abort();
    return 0;
  }
  const auto table = tern::models::MakeParameterTable(*net);
  const auto shapes = tern::models::InferShapes(*net);
  if (!table.ok() || !shapes.ok() || table->parameters.empty()) std::abort();
  std::string json;
  tern::pb::Model model_again;
  if (!google::protobuf::util::MessageToJsonString(*net, &json).ok() ||
      !JsonStringToMessage(json, model_again.mutable_net()).ok())
    std::abort();
  const auto again =
      tern::models::BuildNet(model_again, model_again.net().input(), model_again.net().classes());
  if (!again.ok() || tern::models::ModelDigest(*again) != tern::models::ModelDigest(*net) ||
      !google::protobuf::util::MessageDifferencer::Equals(*again, *net))
    std::abort();
  return 0;
}
