// tern convert onnx: writes a network with its weights as an ONNX file.
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>

#include "common/base/text.h"
#include "common/tensors/safetensors.h"
#include "models/graph/shapes.h"
#include "tools/commands.h"
#include "tools/convert/onnx_graph.h"
#include "tools/net_arguments.h"
#include "tools/write_output.h"
#include "worker/classify.h"

namespace tern::tools {
namespace {

// Refuses to replace what the command reads.
Status CheckOut(const std::string& out_path, const std::string& in_path) {
  std::error_code error;
  if (!std::filesystem::equivalent(out_path, in_path, error)) return Ok();
  return Status(Code::kUsage, Cat(out_path,
                                  " is read by this command; name another file for the "
                                  "network"));
}

}  // namespace

Status ConvertOnnx(const Arguments& arguments) {
  const std::string &weights_path = arguments.positional()[1],
                    &out_path = arguments.positional()[2];
  for (const std::string& in_path : {arguments.positional()[0], weights_path})
    TERN_RETURN_IF_ERROR(CheckOut(out_path, in_path));
  const auto net = NetFromArgument(arguments.positional()[0], arguments);
  if (!net.ok()) return net.status();
  const auto weights = tensors::ReadSafetensors(weights_path);
  if (!weights.ok()) return weights.status();
  const std::vector<std::string> class_names =
      worker::ClassNamesBeside(weights_path, net->classes()).value_or(std::vector<std::string>());
  const auto model = MakeOnnx(*net, *weights, class_names);
  if (!model.ok()) return model.status().Within(weights_path);
  if (model->ByteSizeLong() > std::numeric_limits<int>::max()) {
    return Status(Code::kBadData, Cat(out_path, " would have ", HumanBytes(model->ByteSizeLong()),
                                      "; an ONNX file has at most 2 GB"));
  }
  TERN_RETURN_IF_ERROR(WriteOutput(out_path, model->SerializeAsString()));
  std::printf("%s: %d nodes; takes \"data\" [batch, %u, %u, %u], gives \"scores\" [batch, %u]\n",
              out_path.c_str(), model->graph().node_size(), net->input().channels(),
              net->input().height(), net->input().width(), net->classes());
  return Ok();
}

}  // namespace tern::tools
